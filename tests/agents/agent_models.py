"""Models for agents: the demo's vocabulary with a format's control tokens, its template, tiny random weights.

A prompt of ten thousand tokens takes seconds. Templates are llama.cpp's own copies (LOCALLLM_CHAT_TEMPLATES).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gguf import GGUFReader, TokenType

from tests.models.maker import write_llama
from tests.models.tokenizers import Tokenizer

DEMO = Path(__file__).parents[2] / "localllm" / "data" / "demo.gguf"
_CHATML = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
_DEEPSEEK = (
    "begin▁of▁sentence end▁of▁sentence User Assistant tool▁calls▁begin tool▁calls▁end tool▁call▁begin tool▁call▁end "
    "tool▁sep tool▁output▁begin tool▁output▁end"
).split()
_MISTRAL = [
    f"[{slash}{word}]" for word in ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT") for slash in ("", "/")
]


class AgentFormat(NamedTuple):
    """A template by its file's name, the control tokens of its models, and which of them ends an answer."""

    template: str
    control: tuple[str, ...]
    end: str


FORMATS = {
    "hermes": AgentFormat("Qwen-Qwen3-0.6B.jinja", _CHATML, "<|im_end|>"),
    "qwen3-coder": AgentFormat("Qwen3-Coder.jinja", _CHATML, "<|im_end|>"),
    "mistral": AgentFormat(
        "unsloth-mistral-Devstral-Small-2507.jinja",
        (*_MISTRAL, "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<s>", "</s>"),
        "</s>",
    ),
    "deepseek": AgentFormat(
        "deepseek-ai-DeepSeek-V3.1.jinja",
        tuple(f"<｜{word}｜>" for word in _DEEPSEEK),
        "<｜end▁of▁sentence｜>",
    ),
    "harmony": AgentFormat(
        "openai-gpt-oss-120b.jinja",
        tuple(f"<|{word}|>" for word in ("start", "end", "message", "channel", "constrain", "return", "call")),
        "<|return|>",
    ),
}


def write_agent_model(path: Path, template: str, control: tuple[str, ...], end: str, *, ctx: int = 32768) -> Path:
    """`template`: its text."""
    return write_llama(
        path,
        ctx=ctx,
        n_embd=32,
        n_ff=64,
        n_head=2,
        n_kv=1,
        chat_template=template,
        tokenizer=_with_control(_demo_words(), control, end),
        name=path.stem,
    )


def _demo_words() -> Tokenizer:
    fields = GGUFReader(DEMO).fields

    def value(name: str) -> object:
        return fields[f"tokenizer.ggml.{name}"].contents()

    tokens, types, merges = value("tokens"), value("token_type"), value("merges")
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    assert isinstance(merges, list)
    return Tokenizer(
        model=str(value("model")), tokens=tokens, types=types, special={}, merges=merges, pre=str(value("pre"))
    )


def _with_control(words: Tokenizer, control: tuple[str, ...], end: str) -> Tokenizer:
    missing = [each for each in control if each not in words.tokens]
    tokens = [*words.tokens, *missing]
    types = [*words.types, *[int(TokenType.CONTROL)] * len(missing)]
    for each in control:
        types[tokens.index(each)] = int(TokenType.CONTROL)
    special = {"bos": tokens.index(control[0]), "eos": tokens.index(end)}
    return Tokenizer(
        model=words.model,
        tokens=tokens,
        types=types,
        special=special,
        merges=words.merges,
        pre=words.pre,
        flags={"add_bos_token": False},
    )
