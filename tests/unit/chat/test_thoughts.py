"""The thought before an answer: where an answer begins, and the grammar around it."""

from __future__ import annotations

import json

import msgspec
import pytest
from llguidance import LLMatcher, LLTokenizer
from llguidance._tokenizer import TokenizerWrapper

from localllm.chat.thoughts import beginning_of, switched
from localllm.grammar.compose import composed
from localllm.grammar.texts.literals import Literals
from localllm.types import Beginning, ChatFormat, Message, Rendering
from localllm.types.structures import THOUGHTS, Preface, Structure, Tags

THINK = THOUGHTS[0]
OPEN = Preface(thought=THINK, is_open=True)
OPTIONAL = Preface(thought=THINK)


THINKER = ChatFormat(thought=THINK)
STARTED = ChatFormat(thought=THINK, begins_thought=True)
COHERE = ChatFormat(thought=THOUGHTS[-1], text=Tags("<|START_RESPONSE|>", "<|END_RESPONSE|>"))


@pytest.mark.parametrize(
    ("format", "prompt", "expected"),
    [
        (THINKER, "<|im_start|>assistant\n<think>\n", "thought"),
        (THINKER, "<|im_start|>assistant\n", "either"),
        (THINKER, "<|im_start|>assistant\n<think>\n\n</think>\n\n", "text"),
        (THINKER, "<｜Assistant｜></think>", "text"),
        (STARTED, "<|im_start|>assistant\n<think>\n", "thought"),
        (STARTED, "<|im_start|>assistant\n", "text"),
        (COHERE, "<|CHATBOT_TOKEN|>", "either"),
        (COHERE, "<|CHATBOT_TOKEN|><|START_THINKING|>", "thought"),
        (COHERE, "<|CHATBOT_TOKEN|><|START_RESPONSE|>", "text"),
        (ChatFormat(), "<|im_start|>assistant\n<think>\n", "text"),
    ],
)
def test_the_prompt_says_where_the_answer_begins(format: ChatFormat, prompt: str, expected: Beginning) -> None:
    assert beginning_of(format, prompt) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("assistant", "So it is"), "text"),
        (Message("assistant", "<think>Well,"), "thought"),
        (Message("assistant", "<think>Well.</think>So"), "text"),
        (Message("assistant", "", thought="Well,"), "thought"),
        (Message("assistant", ""), "either"),
    ],
)
def test_an_answer_that_is_continued_goes_on_where_it_was(message: Message, expected: Beginning) -> None:
    prompt = "<think>" * bool(message.thought) + (message.thought or message.content)
    assert beginning_of(THINKER, f"assistant\n{prompt}", message) == expected


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


def test_a_server_says_whether_models_think_where_a_request_does_not() -> None:
    silent, wants = Rendering(), Rendering(variables='{"enable_thinking": true}')
    assert switched(silent, THINKER, "auto") is silent
    assert json.loads(switched(silent, THINKER, "off").variables) == {"enable_thinking": False, "thinking": False}
    assert json.loads(switched(silent, THINKER, "on").variables) == {"enable_thinking": True, "thinking": True}
    assert json.loads(switched(wants, THINKER, "off").variables) == {"enable_thinking": True}
