"""Unpaired surrogates become U+FFFD, and nothing else changes."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from localllm.chat.surrogates import whole_json, whole_struct, whole_text
from localllm.types import Message, ToolCall

TEXTS = st.text(st.sampled_from('a"\\u/d83é😀\ud83d\ude00\udfff\n'))


@given(st.lists(TEXTS))
def test_json_has_the_texts_without_halves(texts: list[str]) -> None:
    body = json.dumps(texts).encode()
    whole = [*map(whole_text, texts)]
    assert json.loads(whole_json(body)) == whole
    upper = re.sub(rb"\\(\\|ud)", lambda escape: escape[0].replace(b"ud", b"uD"), body)
    assert json.loads(whole_json(upper)) == whole
    assert whole_json(whole_json(body)) == whole_json(body)
    encoded = json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert json.loads(whole_json(encoded)) == whole
    if "\ufffd" not in "".join(whole):
        assert whole_json(body) is body


def test_a_message_is_mended_in_all_its_texts() -> None:
    call = ToolCall("f", '{"x": 1}', "\udfff")
    message = Message("assistant", "a\ud83d", parts=("\ud83d\ude00",), tool_calls=(call,))
    mended = Message("assistant", "a\ufffd", parts=("😀",), tool_calls=(ToolCall("f", '{"x": 1}', "\ufffd"),))
    assert whole_struct(message) == mended
    assert whole_struct(mended) is mended
