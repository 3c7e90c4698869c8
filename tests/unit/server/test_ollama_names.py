"""Names as Ollama's clients write them find the models that are here."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter
from localllm.server.apis.ollama.names import found, ours, parse, shown

HERE = ["demo", "qwen3:0.6b", "ollama:llama3.2:latest", "ollama:me/mine:v1", "hf.co/Org/Some-GGUF:Q4_K_M", "tiny-Q8_0"]


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ("demo", "demo"),
        ("demo:latest", "demo"),
        ("DEMO:Latest", "demo"),
        ("library/demo", "demo"),
        ("registry.ollama.ai/library/demo:latest", "demo"),
        ("qwen3:0.6b", "qwen3:0.6b"),
        ("Qwen3:0.6B", "qwen3:0.6b"),
        ("llama3.2", "ollama:llama3.2:latest"),
        ("llama3.2:latest", "ollama:llama3.2:latest"),
        ("https://registry.ollama.ai/library/llama3.2", "ollama:llama3.2:latest"),
        ("me/mine:v1", "ollama:me/mine:v1"),
        ("hf.co/org/some-gguf:q4_k_m", "hf.co/Org/Some-GGUF:Q4_K_M"),
        ("huggingface.co/Org/Some-GGUF:Q4_K_M", "hf.co/Org/Some-GGUF:Q4_K_M"),
        ("tiny-q8_0", "tiny-Q8_0"),
        ("ollama:me/mine:v1", "ollama:me/mine:v1"),
        ("me/mine", None),
        ("demo:other", None),
        ("nothing", None),
    ],
)
def test_a_model_is_found_by_any_of_its_names(asked: str, id: str | None) -> None:
    assert found(asked, HERE) == id


def test_a_short_name_without_a_tag_is_the_catalogs_default() -> None:
    id = next(iter({found("qwen3", [f"qwen3:{tag}"]) for tag in ("0.6b", "1.7b", "4b", "8b")} - {None}))
    assert id is not None
    assert found("qwen3:latest", [id]) == id


@pytest.mark.parametrize("name", ["a b", "a/b/c/d", "", "../x", "a:b:c/", "-x", "x" * 700])
def test_what_is_no_name_is_refused_in_ollamas_words(name: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^invalid model name$"):
        found(name, [])


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("llama3.2", "llama3.2"),
        ("Qwen3:0.6B", "qwen3:0.6b"),
        ("me/mine", "ollama:registry.ollama.ai/me/mine:latest"),
        ("hf.co/Org/Some-GGUF:Q4_K_M", "hf.co/Org/Some-GGUF:Q4_K_M"),
        ("my.host:5000/a/b:c", "ollama:my.host:5000/a/b:c"),
    ],
)
def test_a_name_to_pull_is_one_of_ours(asked: str, name: str) -> None:
    assert ours(asked) == name


@given(st.text(max_size=40))
def test_no_text_breaks_the_search(text: str) -> None:
    with contextlib.suppress(InvalidParameter):
        assert found(text, HERE) in {*HERE, None}


PARTS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,20}", fullmatch=True)


@given(PARTS, PARTS, PARTS)
def test_every_name_that_ollama_takes_is_found_again_in_any_case(namespace: str, model: str, tag: str) -> None:
    id = f"ollama:{namespace}/{model}:{tag}"
    assert parse(shown(id)) is not None
    assert found(shown(id).upper(), [id]) == found(shown(id).lower(), [id]) == id
