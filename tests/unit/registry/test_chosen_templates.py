"""Which chat template a model gets: asked for, its manifest's, its file's, or its architecture's."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.errors import InvalidParameter
from localllm.registry.making.templates import NAMED, OF_ARCHITECTURE, with_template
from localllm.settings.config import Settings, load
from localllm.types import Message
from tests.worker.conftest import INFO

NONE = replace(INFO, chat_templates={}, architecture="qwen2")
OWN = replace(NONE, chat_templates={"default": "{{ 1 }}", "tool_use": "{{ 2 }}"})
SYSTEM = Message("system", "S")
TURNS = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))


def test_what_was_asked_for_comes_first_and_says_so() -> None:
    asked = with_template(OWN, "{{ 3 }}", "chatml")
    assert (asked.chat_templates, asked.chat_template_source) == ({"default": NAMED["chatml"]}, "option")
    manifest = with_template(OWN, "{{ 3 }}")
    assert manifest.chat_templates == {"default": "{{ 3 }}", "tool_use": "{{ 2 }}"}
    assert manifest.chat_template_source == "manifest"
    assert with_template(OWN) == replace(OWN, chat_template_source="file")


def test_a_base_model_gets_no_template_unless_it_is_asked_for() -> None:
    """Gemma 3 270M writes nonsense in a conversation's format that it never saw."""
    gemma, qwen3 = replace(NONE, architecture="gemma3"), replace(NONE, architecture="qwen3")
    for base in (gemma, replace(gemma, purpose="base"), replace(qwen3, purpose="base")):
        assert with_template(base) == base
    for chats in (replace(gemma, purpose="chat"), qwen3):  # a plain Qwen 3 chats
        assert with_template(chats).chat_template_source == "architecture"
    assert with_template(gemma, None, "gemma").chat_template_source == "option"


def test_only_architectures_that_are_known_have_one_of_their_own() -> None:
    known = with_template(replace(NONE, purpose="chat"))
    assert (known.chat_templates, known.chat_template_source) == ({"default": NAMED["chatml"]}, "architecture")
    for other in (replace(NONE, architecture="llama"), replace(NONE, causal=False)):
        assert with_template(other) == other
    assert set(OF_ARCHITECTURE.values()) <= set(NAMED)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "chatml",
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n",
        ),
        ("gemma", "<s><start_of_turn>user\nS\n\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"),
        ("llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\na [/INST] b </s><s>[INST] c [/INST]"),
        ("llama3", "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user"),
        ("phi3", "<|system|>\nS<|end|>\n<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n"),
    ],
)
def test_a_named_template_writes_what_its_models_were_trained_on(name: str, text: str) -> None:
    made = render(RenderRequest(NAMED[name], (SYSTEM, *TURNS), "<s>", "</s>"))
    assert made.text.startswith(text)
    assert made.notes == ()


def test_a_file_is_read_and_what_is_no_template_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{{ messages[0].content }}", "utf-8")
    assert with_template(OWN, None, str(file)).chat_templates == {"default": "{{ messages[0].content }}"}
    for content, match in [
        (b"{{ .System }} {{ range .Messages }}", "this range has no end"),
        (b"Hello", "no place for messages"),
        (b"{{ \xff }}", "cannot be read"),
        (b"{{ x }}" * 200_000, "larger than"),
    ]:
        file.write_bytes(content)
        with pytest.raises(InvalidParameter, match=match) as caught:
            with_template(OWN, None, str(file))
        assert caught.value.param == "chat_template"
    with pytest.raises(InvalidParameter, match="chatml, command-r, gemma"):
        with_template(OWN, None, str(tmp_path / "none"))


def test_a_template_may_be_given_as_its_text() -> None:
    asked = with_template(OWN, None, "{{ messages[0].content }}")
    assert (asked.chat_templates, asked.chat_template_source) == ({"default": "{{ messages[0].content }}"}, "option")
    from_go = with_template(OWN, None, "{{ .System }} {{ range .Messages }}{{ .Content }}{{ end }}")
    assert "{%" in from_go.chat_templates["default"]


def test_the_setting_reaches_a_load() -> None:
    assert load({"chat_template": "chatml"}, environ={}).load_options().chat_template == "chatml"
    assert Settings().load_options().chat_template is None
