"""Chooses a model's chat template: the requested one, the manifest's, the file's, or the architecture's.

Distinguishes Jinja from Go templates, which are translated.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from localllm.errors import InvalidParameter
from localllm.registry.go_template.translating import to_jinja
from localllm.registry.making.modelfile import is_go_template
from localllm.types import ModelInfo

MAX_TEMPLATE_BYTES = 1024 * 1024

_SYSTEM_FIRST = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% set turns = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
)
NAMED = {
    "chatml": (
        "{% for message in messages %}"
        "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "command-r": (
        "{{ bos_token }}{% for message in messages %}{{ '<|START_OF_TURN_TOKEN|><|'"
        " + ('CHATBOT' if message.role == 'assistant' else message.role | upper) + '_TOKEN|>'"
        " + message.content | trim + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"
    ),
    "gemma": (
        "{{ bos_token }}" + _SYSTEM_FIRST + "{% for message in turns %}"
        "{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' }}"
        "{% if system and loop.first %}{{ system + '\n\n' }}{% endif %}"
        "{{ message.content | trim + '<end_of_turn>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
    ),
    "llama2": (
        _SYSTEM_FIRST + "{% for message in turns %}{% if message.role == 'user' %}{{ bos_token + '[INST] ' }}"
        "{% if system and loop.first %}{{ '<<SYS>>\n' + system + '\n<</SYS>>\n\n' }}{% endif %}"
        "{{ message.content | trim + ' [/INST]' }}"
        "{% else %}{{ ' ' + message.content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
    ),
    "llama3": (
        "{{ bos_token }}{% for message in messages %}"
        "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
    "phi3": (
        "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
    ),
}
"""The names that `--chat-template` accepts."""

OF_ARCHITECTURE = {
    "qwen2": "chatml",
    "qwen2moe": "chatml",
    "qwen3": "chatml",
    "qwen3moe": "chatml",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
    "phi3": "phi3",
}
"""Architectures whose chat models all use one template. `llama` is missing: too many kinds of models report it."""
_CHATS_BY_DEFAULT = frozenset({"qwen3", "qwen3moe", "phi3"})
"""Those of them whose chat models have plain names, and base models are called so; elsewhere it is the reverse."""


def with_template(info: ModelInfo, manifest: str | None = None, asked: str | None = None) -> ModelInfo:
    """`info` with the template to use and its origin. `asked`: a name in `NAMED`, a file, or the template itself.

    Raises `InvalidParameter`.
    """
    if asked is not None:
        return _with(info, NAMED[asked] if asked in NAMED else _read(asked), "option")
    if manifest is not None:
        return _with(info, manifest, "manifest")
    if "default" in info.chat_templates:
        return replace(info, chat_template_source="file")
    chats = info.causal and (info.purpose or ("chat" if info.architecture in _CHATS_BY_DEFAULT else "base")) == "chat"
    name = OF_ARCHITECTURE.get(info.architecture) if chats else None
    return info if name is None else _with(info, NAMED[name], "architecture")


def _with(info: ModelInfo, template: str, source: str) -> ModelInfo:
    """A manifest replaces only the default template of the file; the other sources replace its named ones too."""
    others = info.chat_templates if source == "manifest" else {}
    return replace(info, chat_templates={**others, "default": template}, chat_template_source=source)


def _read(asked: str) -> str:
    if _has_place(asked):
        return _checked(asked, "it")
    path = Path(asked).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TEMPLATE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(NAMED)
        why = getattr(error, "strerror", None) or error
        raise _wrong(
            f"{asked} cannot be read ({why}); give a Jinja template, a file with one, or one of {names}"
        ) from error
    if len(content) > MAX_TEMPLATE_BYTES:
        raise _wrong(f"{asked} is larger than {MAX_TEMPLATE_BYTES} bytes, too large for a chat template")
    if not _has_place(text):
        raise _wrong(f"{asked} has no place for messages; write it in Jinja")
    return _checked(text, asked)


def _checked(text: str, where: str) -> str:
    if not is_go_template(text):
        return text
    try:
        return to_jinja(text)
    except InvalidParameter as error:
        raise _wrong(f"{where} cannot be translated to Jinja: {error.message}; write it in Jinja") from error


def _has_place(text: str) -> bool:
    """Whether it contains any Jinja or Go tag."""
    return "{{" in text or "{%" in text


def _wrong(reason: str) -> InvalidParameter:
    return InvalidParameter(f"chat_template: {reason}", param="chat_template")
