"""What is to be embedded, in every form that a client may send: each is an item, or an error that says where."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import RequestError
from localllm.server.apis.embeddings.inputs import Inputs, Item, alike, is_single, items_of

TEXTS = st.text(max_size=5)
TOKENS = st.integers(0, 300)
PARTS = st.builds(lambda text: {"type": "text", "text": text}, TEXTS) | st.just({"type": "image_url"})
OBJECTS = st.builds(lambda text: {"prompt_string": text}, TEXTS) | st.builds(
    lambda parts: {"content": parts}, st.lists(PARTS, max_size=3)
)
ITEMS = TEXTS | OBJECTS | st.lists(TEXTS | TOKENS, max_size=4)
INPUTS = ITEMS | st.lists(ITEMS | TOKENS, max_size=4)


async def _bytes(text: str, begins: bool) -> list[int]:
    return [256] * begins + list(text.encode("utf-8", "replace"))


def _texts_in(item: Any) -> str:
    return item if isinstance(item, str) else "".join(piece for piece in item if isinstance(piece, str))


@given(INPUTS)
def test_every_input_is_as_many_items_as_it_has_or_an_error_that_says_where(sent: Any) -> None:
    inputs: Inputs = msgspec.convert(sent, Inputs)
    items: list[Item] = []
    param: str | None = None
    try:
        items = items_of(inputs, "input")
    except RequestError as error:
        param = error.param
    assert bool(items) != bool(param and param.startswith("input"))
    if not items:
        return
    assert len(items) == (1 if is_single(inputs) else len(sent))
    assert all(items), "nothing empty is left to a model"


@given(st.lists(TEXTS.filter(bool) | st.lists(TEXTS | TOKENS, min_size=1, max_size=4).map(tuple), min_size=1))
def test_items_become_alike_and_lose_nothing(items: list[Any]) -> None:
    texts, tokens, _ = asyncio.run(alike(items, _bytes))
    assert (texts is None) != (tokens is None)
    if texts is not None:
        assert texts == items
        return
    assert tokens is not None
    assert len(tokens) == len(items)
    for item, made in zip(items, tokens, strict=True):
        pieces = (item,) if isinstance(item, str) else item
        size = sum(len(piece.encode("utf-8", "replace")) if isinstance(piece, str) else 1 for piece in pieces)
        assert len(made) == size + isinstance(pieces[0], str)
        assert _texts_in(item).encode("utf-8", "replace") in bytes(min(token, 255) for token in made) or len(pieces) > 1
