"""The thought before a structured answer: who has one, the grammar around it, and telling it apart as text streams."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from llguidance._tokenizer import TokenizerWrapper

from localllm.chat.thoughts import begins_thoughts, preface_of, thought_of
from localllm.engine.thoughts import ThoughtSplitter
from localllm.grammar.compose import composed
from localllm.grammar.literals import Literals
from localllm.structures import THOUGHTS, Preface, Structure, Tags

THINK = THOUGHTS[0]
OPEN = Preface(thought=THINK, is_open=True)
OPTIONAL = Preface(thought=THINK)


def split(preface: Preface, pieces: list[str]) -> tuple[str, str]:
    splitter = ThoughtSplitter(preface)
    parts = [splitter.feed(piece) for piece in pieces] + [splitter.flush()]
    return "".join(thought for thought, _ in parts), "".join(answer for _, answer in parts)


@pytest.mark.parametrize(
    ("preface", "text", "expected"),
    [
        (OPEN, "Well.\n</think>\n\n{}", ("Well.", "{}")),
        (OPEN, "\nWell, a < b\n\nso.\n</think>\n\n{}", ("Well, a < b\n\nso.", "{}")),
        (OPEN, "</think>\n\n{}", ("", "{}")),
        (OPEN, "Cut off", ("Cut off", "")),
        (OPEN, "Cut off </thi", ("Cut off </thi", "")),
        (OPEN, "Cut off </think>\n", ("Cut off", "")),
        (OPEN, 'a</think>\n\n\n"</think>\n\n"', ("a", '\n"</think>\n\n"')),
        (OPTIONAL, "<think>Well.</think>\n\n{}", ("Well.", "{}")),
        (OPTIONAL, "{}", ("", "{}")),
        (OPTIONAL, "<thin", ("", "<thin")),
        (OPTIONAL, '"<think>a</think>\n\n"', ("", '"<think>a</think>\n\n"')),
    ],
)
@given(data=st.data())
def test_a_thought_is_told_apart_however_the_text_is_cut(
    preface: Preface, text: str, expected: tuple[str, str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(preface, pieces) == expected


def test_the_template_says_whether_a_model_thinks() -> None:
    assert thought_of("{{ messages }}") is None
    assert thought_of("{% if '</think>' in content %}... '<think>\\n'") == THINK
    assert thought_of("[THINK]{{ message.reasoning }}[/THINK]") == Tags("[THINK]", "[/THINK]")


QWEN = """{{ '<think>' + '</think>' }}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{% endif %}"""
DEMO = """{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking %}{{- '<think>\\n' }}{% endif %}{% endif %}{# </think> #}"""


def test_only_models_that_begin_their_thoughts_themselves_may_begin_one() -> None:
    assert not begins_thoughts(QWEN, THINK)
    assert begins_thoughts(DEMO, THINK)
    assert not begins_thoughts("<think> {{ messages }} </think>", THINK)
    assert preface_of(THINK, "assistant\n", None, may_begin=False) is None
    assert preface_of(THINK, "assistant\n<think>\n", None, may_begin=False) == OPEN


@pytest.mark.parametrize(
    ("prompt", "budget", "expected"),
    [
        ("<|im_start|>assistant\n<think>\n", 7, Preface(thought=THINK, is_open=True, budget=7)),
        ("<|im_start|>assistant\n<think>\n", 0, Preface(thought=THINK, is_open=True, budget=0)),
        ("<|im_start|>assistant\n", None, OPTIONAL),
        ("<|im_start|>assistant\n", 0, None),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None, None),
    ],
)
def test_the_prompt_says_whether_the_answer_begins_in_a_thought(
    prompt: str, budget: int | None, expected: Preface | None
) -> None:
    assert preface_of(THINK, prompt, budget) == expected
    assert preface_of(None, prompt, budget) is None


class Bytes:
    """A vocabulary of all bytes, and special tokens for an end and both tags."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>", b"<think>", b"</think>")
    special_token_ids = (256, 257, 258)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@pytest.fixture(scope="module")
def tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(Bytes()))


SPECIAL = Literals({"<end>": 256, "<think>": 257, "</think>": 258}, ends=(256,))


def accepts(tokenizer: LLTokenizer, preface: Preface, literals: Literals, tokens: list[int]) -> bool:
    document = Structure(kind="choice", source='["1", "\\"</think>\\""]')
    matcher = LLMatcher(tokenizer, composed(document, preface, literals).grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@pytest.mark.parametrize("is_special", [True, False])
def test_the_grammar_takes_a_thought_and_then_the_document(tokenizer: LLTokenizer, *, is_special: bool) -> None:
    opening, closing = ([257], [258]) if is_special else (list(b"<think>"), list(b"</think>"))
    literals = SPECIAL if is_special else Literals()

    def takes(preface: Preface, tokens: list[int]) -> bool:
        return accepts(tokenizer, preface, literals, tokens)

    thought, document = list("Größe <b> {1} \n\n".encode()), [*b"\n\n1"]
    assert takes(OPEN, [*thought, *closing, *document])
    assert takes(OPEN, [*closing, *document])
    assert takes(OPEN, [*thought, *closing, *b'\n\n"</think>"'])
    assert takes(OPTIONAL, [*opening, *thought, *closing, *document])
    assert takes(OPTIONAL, [*b"1"])
    assert not takes(OPEN, [*b"1"])
    assert not takes(OPEN, [*thought, *closing, *b"1"])
    assert not takes(OPEN, [*thought, *closing, *b"\n\n2"])
    if is_special:  # its spelling in other tokens would end the thought for who reads the text
        assert not takes(OPEN, [*thought, *b"</think>", *closing, *document])


def test_what_stands_around_a_structured_text_stands_around_it_in_the_grammar(tokenizer: LLTokenizer) -> None:
    around = Preface(thought=Tags("<think>", "</think>"), behind="\n", text=Tags("<say>", "</say><end>"))
    assert accepts(tokenizer, around, SPECIAL, [257, *b"so", 258, *b"\n<say>1</say>"])
    assert accepts(tokenizer, around, SPECIAL, [*b"<say>1</say>"])
    assert not accepts(tokenizer, around, SPECIAL, [*b"1"])
    without = msgspec.structs.replace(around, thought=None)
    assert accepts(tokenizer, without, SPECIAL, [*b"<say>1</say>"])
    assert not accepts(tokenizer, without, SPECIAL, [257, *b"so", 258, *b"\n<say>1</say>"])
