"""Chat templates render as Transformers renders them, and a bad one costs a request, never a process."""

from __future__ import annotations

import pytest

from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.errors import TemplateError
from localllm.types import Message

TURNS = (Message("system", "Be brief."), Message("user", 'Say "hi" & <go>'))


def request(template: str) -> RenderRequest:
    return RenderRequest(template=template, messages=TURNS, bos_token="<s>", eos_token="</s>")


def test_a_chatml_template_renders_turns_and_the_generation_prompt() -> None:
    chatml = (
        "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    assert render(request(chatml)) == (
        '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay "hi" & <go><|im_end|>\n<|im_start|>assistant\n'
    )


def test_blocks_are_trimmed_and_json_is_not_html_escaped_as_in_transformers() -> None:
    template = "{{ bos_token }}\n  {% for m in messages %}\n{% if loop.first %}{% continue %}{% endif %}\n"
    template += "{{ m.content | tojson }}{{ eos_token }}\n  {% endfor %}\n"
    assert render(request(template)) == '<s>\n"Say \\"hi\\" & <go>"</s>\n'


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
    ],
)
def test_cve_2024_34359_a_template_cannot_leave_the_sandbox(template: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(request(template))
    assert caught.value.param == "messages"
    assert "uid=" not in str(caught.value)
