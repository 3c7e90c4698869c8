"""A format that nobody described is found from what its template writes, whatever its literals are."""

from __future__ import annotations

import json
import string
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.chat.formats.finding import format_of
from localllm.chat.formats.writer import written_calls
from localllm.types import ToolCall
from tests.unit.chat.formats.answers import at_many_cuts

MADE = (
    ToolCall("get_weather", json.dumps({"city": "Ulm", "loose": "é }"}, ensure_ascii=False), "id1"),
    ToolCall("other", "{}", "id2"),
    ToolCall("get_weather", json.dumps({"city": "a b"}), "id3"),
)


class Made(NamedTuple):
    """A template that writes calls in some way, and how it writes `MADE`."""

    template: str
    expected: str


def literal(text: str) -> str:
    return "{{ " + json.dumps(text, ensure_ascii=False) + " }}"


def template_of(begin: str, call: str, between: str, end: str) -> str:
    """`call`: Jinja, with `c` for the call."""
    return (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
        "{% if loop.first %}BEGIN{% else %}BETWEEN{% endif %}CALL{% if loop.last %}END{% endif %}{% endfor %}"
        "<|end|>{% endfor %}{{ tools | tojson if tools }}{% if add_generation_prompt %}<|assistant|>{% endif %}"
        .replace("BEGIN", literal(begin))
        .replace("BETWEEN", literal(between))
        .replace("END", literal(end))
        .replace("CALL", call)
    )  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, str, str, str, str]:
    """What stands around calls: begin, before, after, between, end."""
    word = draw(st.text(string.ascii_lowercase, min_size=3, max_size=8))
    begin, end = draw(st.sampled_from([("", ""), (f"<{word}s>\n", f"\n</{word}s>"), (f"[{word.upper()}]", "")]))
    before, after = draw(
        st.sampled_from([(f"<{word}>", f"</{word}>"), (f"<{word}>\n", f"\n</{word}>"), (f"@{word} ", ";")])
    )
    return begin, before, after, draw(st.sampled_from(["", "\n", " "])), end


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def objects(row: tuple[str, str, str, str, str], name: str, arguments: str) -> Made:
    begin, before, after, between, end = row
    call = (
        literal(before + '{"' + name + '": "') + "{{ c.function.name }}" + literal(f'", "{arguments}": ')
        + "{{ a | tojson }}" + literal("}" + after)
    )  # fmt: skip
    each = [before + dumped({name: one.name, arguments: json.loads(one.arguments)}) + after for one in MADE]
    return Made(template_of(begin, call, between, end), begin + between.join(each) + end)


def patterns(row: tuple[str, str, str, str, str], mark: str) -> Made:
    begin, before, after, between, end = row
    call = literal(before) + "{{ c.function.name }}" + literal(mark) + "{{ a | tojson }}" + literal(after)
    each = [before + one.name + mark + dumped(json.loads(one.arguments)) + after for one in MADE]
    return Made(template_of(begin, call, between, end), begin + between.join(each) + end)


def tagged(row: tuple[str, str, str, str, str], key: str, value: str) -> Made:
    begin, before, after, between, end = row
    call = (
        literal(before) + "{{ c.function.name }}{% for k, v in a.items() %}" + literal(key) + "{{ k }}" + literal(value)
        + "{{ v if v is string else v | tojson }}" + literal("</v>") + "{% endfor %}" + literal(after)
    )  # fmt: skip

    def one(made: ToolCall) -> str:
        given: dict[str, str] = json.loads(made.arguments)
        return before + made.name + "".join(f"{key}{k}{value}{v}</v>" for k, v in given.items()) + after

    return Made(template_of(begin, call, between, end), begin + between.join(map(one, MADE)) + end)


SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(
    st.one_of(
        st.builds(objects, rows(), st.sampled_from(["tool", "fn"]), st.sampled_from(["input", "kwargs"])),
        st.builds(patterns, rows(), st.sampled_from([" with ", "=>", "<args>", "\n```json\n"])),
        st.builds(tagged, rows(), st.just("<k>"), st.sampled_from(["</k><v>", "</k>\n<v>"])),
    )
)
def test_a_format_is_found_from_what_its_template_writes(made: Made) -> None:
    found = format_of(made.template)
    assert found.note == ""
    assert found.calls is not None
    assert written_calls(found.calls, MADE).strip() == made.expected.strip()
    expected = tuple((each.name, json.loads(each.arguments)) for each in MADE)
    whole = at_many_cuts(found, f"Well.\n{made.expected}")
    assert (whole.text, whole.calls, whole.notes) == ("Well.", expected, ())
