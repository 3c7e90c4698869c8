"""Pictures and sounds stand where a template would show them, whatever texts stand around them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.chat.media_marks import Marks, MediaMark, Piece, QuotedText, new_marker
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.types import Media, Message, ToolCall

PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
_PARTS = (
    "{{% for m in messages %}}<|{{{{ m.role }}}}|>{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}"
    "{{% for p in m.content %}}{{% if p.type == 'text' %}}{{{{ p.text }}}}{{% elif p.type == '{image}' %}}{shown}"
    "{{% endif %}}{{% endfor %}}{{% endif %}}{{% endfor %}}"
)
QWEN = _PARTS.format(image="image", shown="<|vision_start|><|image_pad|><|vision_end|>")
OPENAI = _PARTS.format(image="image_url", shown="[IMG]")
COUNTING = "{% set n = namespace(i=0) %}" + _PARTS.format(
    image="image", shown="{% set n.i = n.i + 1 %}Picture {{ n.i }}: <|image_{{ n.i }}|>\n"
)
ONLY_USERS = _PARTS.format(image="image", shown="{% if m.role == 'user' %}<image>{% endif %}")
HEARING = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if 'text' in p %}{{ p.text }}{% else %}<|pad|>{% endif %}{% endfor %}{% endif %}"
    "{% endfor %}"
)
"""The same placeholder for pictures and sounds."""
TEMPLATES = {
    "plain": PLAIN, "qwen": QWEN, "openai": OPENAI, "counting": COUNTING, "users": ONLY_USERS, "hearing": HEARING
}  # fmt: skip


def picture(letter: str, kind: str = "image") -> Media:
    return Media(kind="image" if kind == "image" else "audio", digest=letter * 64, num_bytes=1)


def user(*parts: str | Media) -> Message:
    return Message("user", "\n".join(part for part in parts if isinstance(part, str)), parts=parts)


def pieces(template: str, *messages: Message) -> list[Piece]:
    marker = new_marker()
    return [*Marks(marker).split(render(RenderRequest(template, messages, marker=marker)).text)]


def shown(template: str, *messages: Message) -> str:
    marker = new_marker()
    marks = Marks(marker)
    text = render(RenderRequest(template, messages, marker=marker)).text
    return "".join(
        piece.text
        if isinstance(piece, QuotedText)
        else f"({piece.digest[0]})"
        if isinstance(piece, MediaMark)
        else piece
        for piece in marks.split(text)
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (PLAIN, "<|user|>(a)\n(b)\nWhat is it?"),  # not shown by the template: before the text
        (QWEN, "<|user|>What is it?(a)(b)"),
        (OPENAI, "<|user|>What is it?(a)(b)"),
        (COUNTING, "<|user|>What is it?Picture 1: (a)\nPicture 2: (b)\n"),
        (HEARING, "<|user|>What is it?(a)(b)"),
    ],
)
def test_a_picture_stands_where_the_template_shows_it(template: str, text: str) -> None:
    assert shown(template, user("What is it?", picture("a"), picture("b"))) == text


def test_the_order_of_pictures_between_texts_is_kept_everywhere() -> None:
    message = user("Left:", picture("a"), "right:", picture("b", "audio"))
    assert shown(PLAIN, message) == "<|user|>Left:\n(a)\nright:\n(b)"
    assert shown(HEARING, message) == "<|user|>Left:(a)right:(b)"
    assert shown(QWEN, message) == "<|user|>Left:(a)right:(b)"  # it shows no sounds


def test_a_role_whose_pictures_the_template_drops_gets_them_as_text() -> None:
    call = Message("assistant", "", tool_calls=(ToolCall("look", "{}", "c"),))
    result = Message("tool", "Here:", parts=("Here:", picture("b")), tool_call_id="c", name="look")
    for template in TEMPLATES.values():
        found = shown(template, user("Look", picture("a")), call, result)
        assert found.count("(a)") == found.count("(b)") == 1
        assert found.index("(a)") < found.index("(b)")


TEXTS = st.sampled_from(
    ["", "a", "x\ny", "<|image_pad|>", "<image>", "[IMG]", "<|vision_start|><|image_pad|><|vision_end|>", "<|image_1|>",
     "<|pad|>", "Picture 1: ", "qz" + "0" * 32 + ".image..;", "{{ m }}"]
)  # fmt: skip
MEDIA = st.sampled_from("abc").map(picture)
CONTENTS = st.lists(TEXTS | MEDIA, min_size=1, max_size=5)


@given(st.sampled_from(sorted(TEMPLATES)), st.lists(CONTENTS, min_size=1, max_size=3))
def test_no_text_of_a_user_becomes_a_picture_or_moves_one(name: str, contents: list[list[str | Media]]) -> None:
    template = TEMPLATES[name]
    messages: list[Message] = []
    for content in contents:
        messages += [user("m", *content), Message("assistant", "<image>ok<|image_pad|>[IMG]")]
    found = pieces(template, *messages)
    sent = [medium for message in messages for medium in message.media]
    assert [piece.digest for piece in found if isinstance(piece, MediaMark)] == [medium.digest for medium in sent]
    plain = "".join(piece if isinstance(piece, str) else "" for piece in found)
    if name != "plain":  # a template that shows nothing has no placeholder that a text could name
        placeholder = {"qwen": r"<\|image_pad\|>", "openai": r"\[IMG\]", "users": "<image>", "hearing": r"<\|pad\|>"}
        assert not re.search(placeholder.get(name, r"<\|image_\d+\|>"), plain)
    text = "".join(
        piece if isinstance(piece, str) else piece.text for piece in found if not isinstance(piece, MediaMark)
    )
    for written in (part for content in contents for part in content if isinstance(part, str)):
        assert written.strip() in text


def test_a_growing_conversation_keeps_its_prefix() -> None:
    marker = new_marker()
    turns = [user("Look", picture("a")), Message("assistant", "Red."), user("And?", picture("b"))]
    for template in TEMPLATES.values():
        first, both = (render(RenderRequest(template, tuple(turns[:n]), marker=marker)).text for n in (2, 3))
        assert both.startswith(first)
