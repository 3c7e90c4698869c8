"""Names tell chat models from base models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localllm.gguf import read_model_info
from localllm.gguf.purpose import purpose_of
from tests.models.maker import write_llama


def test_whole_words_of_names_and_tags_tell_what_a_model_is() -> None:
    for name in ("gemma-3-270m-it-Q4_0.gguf", "Llama 3.2 1B Instruct", "qwen1_5-0_5b-chat", "Zephyr SFT"):
        assert purpose_of([name]) == "chat", name
    for name in ("Qwen3-0.6B-Base-f16.gguf", "gemma-3-4b-pt", "gemma3-270m-base-q4_k_m.gguf"):
        assert purpose_of([name]) == "base", name
    for name in ("Gemma 3 270m", "Titan", "chatty", "database", "encrypt", "qwen2.5-7b.gguf"):
        assert purpose_of([name]) == "", name
    assert purpose_of(["Titan"], ["it", "text-generation"]) == ""  # the tag is Italian
    assert purpose_of(["Titan"], ["conversational"]) == "chat"


def test_the_header_and_the_files_own_name_are_asked(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("x-it.gguf", {}, "chat"),
        ("x.gguf", {"general.finetune": "Instruct"}, "chat"),
        ("x.gguf", {"general.basename": "x-base", "general.tags": ["text-generation"]}, "base"),
        ("x.gguf", {"general.tags": [1, 2]}, ""),
    ]
    for number, (name, extra, expected) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        assert read_model_info(write_llama(tmp_path / str(number) / name, extra=extra)).purpose == expected
