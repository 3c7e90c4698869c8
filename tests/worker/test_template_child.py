"""The template process: bounded in time and memory, and back for the next request."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from localllm.chat.request import FormatRequest, RenderRequest
from localllm.errors import TemplateError
from localllm.types import Message, ToolCall
from localllm.worker import framing
from localllm.worker.prompts import template_child
from localllm.worker.prompts.template_child import TemplateChild


@pytest.fixture(scope="module")
def child() -> Iterator[TemplateChild]:
    child = TemplateChild()
    yield child
    child.close()


def request(template: str) -> RenderRequest:
    return RenderRequest(template=template, messages=(Message("user", "hi"),))


def test_it_renders_and_reports_errors_without_dying(child: TemplateChild) -> None:
    assert child.render(request("{{ messages[0].content }}")).text == "hi"
    with pytest.raises(TemplateError, match="division by zero"):
        child.render(request("{{ 1 / 0 }}"))
    assert child.render(request("{{ messages[0].content }}")).text == "hi"


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 200000000 }}",
        "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    ],
    ids=["endless loop", "200 MB string", "doubling string"],
)
def test_cve_2026_5760_a_template_that_runs_wild_is_refused_in_bounded_time_and_the_next_one_renders(
    child: TemplateChild, template: str
) -> None:
    started = time.perf_counter()
    with pytest.raises(TemplateError):
        child.render(request(template))
    assert time.perf_counter() - started < 10
    assert child.render(request("{{ messages[0].content }}")).text == "hi"


def test_many_requests_in_a_row_do_not_add_up_to_the_cpu_limit(child: TemplateChild) -> None:
    busy = request("{% for i in range(60000) %}{% endfor %}ok")
    assert {child.render(busy).text for _ in range(60)} == {"ok"}


def test_half_a_surrogate_in_the_arguments_of_a_call_becomes_a_replacement_character(child: TemplateChild) -> None:
    call = ToolCall("f", '{"x": "\\ud83d"}')
    asked = RenderRequest(
        template="{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}"
        "{% for k, v in c.function.arguments.items() %}{{ k }}:{{ v }}{% endfor %}{% endfor %}{% endfor %}",
        messages=(Message("user", "hi"), Message("assistant", "", tool_calls=(call,)), Message("tool", "2")),
    )
    rendered = child.render(asked)
    assert rendered.text == "[user]hi[assistant]fx:\ufffd[tool]2"
    assert "surrogates-replaced" in rendered.notes


def test_what_fits_into_no_frame_is_an_error_on_both_ways(
    child: TemplateChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 200)
    with pytest.raises(
        TemplateError, match=r"cannot be rendered: the message takes \d+ bytes; at most 200 are allowed"
    ):
        child.render(request("{{ messages[0].content }}" + " " * 200))
    assert child.render(request("{{ messages[0].content }}")).text == "hi"


HERMES = """{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for m in messages %}[{{ m.role }}]{{ m.content }}
{%- for call in m.tool_calls or [] %}{% if m.content or not loop.first %}{{ '\\n' }}{% endif %}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""
WILD = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def test_it_finds_out_how_the_model_of_a_template_writes_calls(child: TemplateChild) -> None:
    found = child.find_format(FormatRequest(HERMES))
    assert (found.name, found.origin, found.note, found.shows_tools) == ("hermes", "known", "", True)
    assert child.find_format(FormatRequest("{% for m in messages %}{{ m.content }}{% endfor %}")).origin == "generic"


def test_the_format_of_a_template_that_runs_wild_is_the_generic_one_in_bounded_time(
    child: TemplateChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_child, "FINDING_DEADLINE_S", 1.5)
    started = time.perf_counter()
    found = child.find_format(FormatRequest(WILD))
    assert time.perf_counter() - started < 10
    assert (found.name, found.origin) == ("generic", "generic")
    assert "more than" in found.note
    assert found.calls is not None, "tools can be called all the same"
    assert child.render(request("{{ messages[0].content }}")).text == "hi"


@pytest.mark.parametrize("template", ["{% if %}", "{{ '\\ud800' }}", "{{ 1 / 0 }}", ""])
def test_a_template_that_fails_has_the_generic_format(child: TemplateChild, template: str) -> None:
    assert child.find_format(FormatRequest(template)).origin == "generic"
    assert child.render(request("{{ messages[0].content }}")).text == "hi"
