"""A grammar in GBNF takes in Lark exactly the texts that it should, told by a recognizer as simple as can be."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from localllm.errors import InvalidParameter
from localllm.grammar.compose import grammar_of
from localllm.grammar.texts.gbnf import _Parser
from localllm.grammar.texts.nodes import Alt, Chars, Node, Ref, Rep, Rules, Seq
from localllm.types.structures import Structure
from tests.nonsense import TOKENIZER, accepts, compiled, document


def matcher_of(source: str) -> LLMatcher:
    return compiled(grammar_of(Structure(kind="gbnf", source=source)))


class Recognizer:
    """Where a node's text may end that begins at a place; grown until nothing is new, so that recursion ends."""

    def __init__(self, rules: Rules, text: str) -> None:
        self._rules = rules
        self._text = text
        self._ends: dict[tuple[str, int], frozenset[int]] = {}

    def takes_all(self) -> bool:
        while True:
            before = dict(self._ends)
            ends = self._rule("root", 0, set())
            if self._ends == before:
                return len(self._text) in ends

    def _rule(self, name: str, at: int, inside: set[tuple[str, int]]) -> frozenset[int]:
        if (name, at) not in inside:
            found = frozenset(self._node(self._rules[name], at, inside | {(name, at)}))
            self._ends[name, at] = self._ends.get((name, at), frozenset()) | found
        return self._ends.get((name, at), frozenset())

    def _node(self, node: Node, at: int, inside: set[tuple[str, int]]) -> set[int]:
        match node:
            case Chars(ranges):
                fits = at < len(self._text) and any(first <= ord(self._text[at]) <= last for first, last in ranges)
                return {at + 1} if fits else set()
            case Ref(name):
                return set(self._rule(name, at, inside))
            case Alt(options):
                return {end for option in options for end in self._node(option, at, inside)}
            case Seq(items):
                ends = {at}
                for item in items:
                    ends = {end for start in ends for end in self._node(item, start, inside)}
                return ends
            case Rep(item, least, most):
                ends, found = {at}, {at} if least == 0 else set()
                for count in range(1, (len(self._text) + least + 2 if most is None else most) + 1):
                    ends = {end for start in ends for end in self._node(item, start, inside)}
                    found |= ends if count >= least else set()
                return found
            case _:
                raise AssertionError(node)


def takes(source: str, text: str) -> bool:
    return Recognizer(_Parser(source, "grammar").rules(), text).takes_all()


JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# Optional space
ws ::= | " " | "\n" [ \t]{0,20}
"""

ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        (JSON, ['{"a":[1,2,{"b":null}],"c":"x\\n"}', "{ }", '{"a": true}', "[1]", "{a:1}", '{"a":01}',
        '{"é":-1.5e3}', '{"a":"\n"}']),
        (ARITHMETIC, ["a=1\n", "a+(b*c)= (d)\n", "a=1\nb=2\n", "a=\n", "=1\n", "a1 =a1\n\n"]),
        ('root ::= [a-z]+ "b"', ["ab", "aab", "b", "abb", "abc"]),
         # the longest text of a terminal is not the right one
        ('root ::= ("a" | "ab") "c" x\nx ::= "(" x ")" | "d"', ["acd", "abc(d)", "ac((d))", "ad"]),
        ('root ::= ident "if" x\nident ::= [a-z]*\nx ::= "(" x ")" | ""', ["aif", "if", "ifif()", "x", "ififif(())"]),
        ('root ::= "a" | "b" root "b"', ["a", "bab", "bbabb", "bb"]),
        ('root ::= root "a" | "b"', ["b", "baa", "a"]),
        ('root ::= "\\x41\\u00e9\\U0001F600" . [^a] [\\]\\-x-]', ["Aé😀x\n-", "Aé😀x\n]", "Aé😀xa-", "Aé😀"]),
        ('root ::= ("a"{2,3} | "b"{2} | "c"{1,}) # comment\n# another\n\nother ::= "x"', ["aa", "aaaa", "bb", "b",
        "ccc", "x"]),
        ('root-1 ::= "x"\r\nroot ::= root-1 "" (root-1)?', ["x", "xx", ""]),
    ],
)  # fmt: skip
def test_grammars_take_what_llama_cpp_would_take(source: str, texts: list[str]) -> None:
    matcher = matcher_of(source)
    assert {text: accepts(matcher, text) for text in texts} == {text: takes(source, text) for text in texts}
    rng = random.Random(1)
    for _ in range(5):
        text = document(matcher, rng, most=20)
        assert text is None or len(text) > 60 or takes(source, text)


ATOMS = st.sampled_from(['"a"', '"b"', '"ab"', "[ab]", "[^a]", '"c"', "[a-c]", '"ba"', '""', "one", "two", "."])


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """The right side of a rule."""
    inner = st.recursive(
        ATOMS,
        lambda one: st.one_of(
            st.lists(one, min_size=2, max_size=3).map(" ".join),
            st.lists(one, min_size=2, max_size=2).map(lambda options: f"({' | '.join(options)})"),
            st.tuples(one, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda pair: f"({pair[0]}){pair[1]}"),
        ),
        max_leaves=5,
    )
    return draw(inner)


@settings(max_examples=60)
@given(bodies(), bodies(), bodies(), st.lists(st.text("abc", max_size=5), min_size=4, max_size=8))
@example('[ab]+ "b" one', '"(" one ")" | "c"', '"c"', ["abc", "bc", "abbc", "b"])
def test_any_grammar_is_the_same_in_lark(root: str, one: str, two: str, texts: list[str]) -> None:
    source = f'root ::= {root}\none ::= {one} | "c"\ntwo ::= {two} | "b" | "a" two'
    matcher = LLMatcher(TOKENIZER, grammar_of(Structure(kind="gbnf", source=source)), log_level=0)
    if matcher.is_error():  # it takes nothing but the empty text
        return
    for text in texts:
        assert accepts(matcher, text) == takes(source, text), (source, text)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("", "root"), ('x ::= "a"', "root"), ("root ::= y", "no rule named y"), ('root ::= "a', "line 1"),
        ("root ::= [z-a]", "range"),
        ('root ::= "a"\nx = 3', "line 2"), ('root ::= "\\q"', "\\q"), ("root ::= *", "nothing to repeat"),
        ('root ::= ("a"', "`)`"),
        ('root ::= "a"{3,2}', "below"), ("root ::= []", "class"), ('root ::= "a"{9999}', "2000"), ('root ::= "\\x4"',
        "digits"),
        ("root ::= " + "(" * 100 + '"a"' + ")" * 100, "deep"), ("root ::= !<think>", "requires its id"),
    ],
)  # fmt: skip
def test_what_is_no_gbnf_is_refused_with_its_line(source: str, word: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        grammar_of(Structure(kind="gbnf", source=source, param="grammar"))
    assert caught.value.param == "grammar"
    assert word in caught.value.message
