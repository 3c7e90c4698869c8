"""Chat templates render as Transformers renders them, and a bad one costs a request, never a process."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.errors import TemplateError
from localllm.types import Message, Rendering


def text_of(asked: RenderRequest) -> str:
    return render(asked).text


TURNS = (Message("system", "Be brief."), Message("user", 'Say "hi" & <go>'))


def request(template: str) -> RenderRequest:
    return RenderRequest(template=template, messages=TURNS, bos_token="<s>", eos_token="</s>")


def test_a_chatml_template_renders_turns_and_the_generation_prompt() -> None:
    chatml = (
        "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    assert text_of(request(chatml)) == (
        '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay "hi" & <go><|im_end|>\n<|im_start|>assistant\n'
    )


def test_blocks_are_trimmed_and_json_is_not_html_escaped_as_in_transformers() -> None:
    template = "{{ bos_token }}\n  {% for m in messages %}\n{% if loop.first %}{% continue %}{% endif %}\n"
    template += "{{ m.content | tojson }}{{ eos_token }}\n  {% endfor %}\n"
    assert text_of(request(template)) == '<s>\n"Say \\"hi\\" & <go>"</s>\n'


def test_a_generation_block_is_what_it_holds() -> None:
    """As Transformers' extension renders it: trimmed as any block, a scope of its own, in a loop and in a macro."""
    template = (
        "{% set seen = namespace(count=0) %}{% set word = 'out' %}\n"
        "{% for m in messages %}\n"
        "  {% generation %}\n"
        "{% set word = 'in' %}{% set seen.count = seen.count + 1 %}{{ loop.index }}{{ m.content[:3] }}{{ word }};\n"
        "  {% endgeneration %}\n"
        "{% endfor %}\n"
        "{% macro say(x) %}{% generation %}{{ x }}{% endgeneration %}{% endmacro %}\n"
        "{{ word }} {{ seen.count }} {{ say('hi') }}"
    )
    assert text_of(request(template)) == "1Be in;\n2Sayin;\nout 2 hi"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% if tools is not none %}tools{% endif %}{% if documents %}documents{% endif %}none", "none"),
        ("{{ tools is defined }}", "True"),
        ("{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{{ {'a': 'ä<'} | tojson(indent=1) }}", '{\n "a": "ä<"\n}'),
        (
            "{{ {'b': 1, 'a': 'ä'} | tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True) }}",
            '{"a":"\\u00e4","b":1}',
        ),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_the_environment_is_that_of_transformers(template: str, text: str) -> None:
    assert text_of(request(template)) == text


def test_a_templates_own_complaint_reaches_the_user() -> None:
    with pytest.raises(TemplateError, match="Conversation roles must alternate"):
        render(request("{{ raise_exception('Conversation roles must alternate') }}"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ range(10**9) | list }}",
        "{% for m in messages %}",
        "{{ unknown.field.deeper }}",
        "{{ 1 / 0 }}",
        "{% generation %}{{ ''.__class__.__mro__[1].__subclasses__() }}{% endgeneration %}",
        "{% generation %}",
        "{% generation foo() %}{% endgeneration %}",
        "{{ self._Generation }}{{ generation.environment.globals }}",
    ],
)
def test_cve_2024_34359_a_template_cannot_leave_the_sandbox(template: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(request(template))
    assert caught.value.param == "messages"
    assert "uid=" not in str(caught.value)


def test_templates_get_todays_date_as_llama_cpp_gives_it_unless_the_request_says_another() -> None:
    dated = "{{ date_string }}|{{ datetime }}|{{ messages[0].content }}"
    today, now, _ = text_of(request(dated)).split("|")
    assert abs(datetime.datetime.now() - datetime.datetime.strptime(today, "%d %b %Y")) < datetime.timedelta(days=2)
    assert now.endswith(" GMT")
    said = msgspec.structs.replace(request(dated), rendering=Rendering(variables='{"date_string": "1 May 2020"}'))
    assert text_of(said).startswith("1 May 2020|")
