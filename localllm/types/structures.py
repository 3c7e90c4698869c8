"""The structure that a generated text must have, in the request's notation, and the reasoning allowed before it.

Plain frozen data, a part of `types`. Knows nothing of grammars.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from localllm.errors import InvalidParameter
from localllm.types.declared import Setting, check_ranges

StructureKind = Literal["json_object", "json_schema", "regex", "choice", "lark", "gbnf", "structural_tag", "answer"]
"""`gbnf`: llama.cpp's notation; `choice`: one of several texts; `structural_tag`: free text, except between given tags;
`answer`: free text with tool calls, for internal use only."""

Whitespace = Literal["compact", "minimal", "pretty"]
"""White space between JSON tokens: a space after each comma and colon, as models were trained to write on one line;
none; or as the model chooses, within bounds."""

MAX_SOURCE_BYTES = 1_000_000


class Structure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The structure of an answer's whole text (after its reasoning, if any)."""

    kind: StructureKind
    source: str = ""
    """JSON of the schema, in the client's own property order; the regular expression; a JSON array of the texts; the
    grammar; JSON of the structural tag. Empty for `json_object`."""
    param: str = "response_format"
    """Path of the source in the request, for errors: paths within it are appended."""
    whitespace: Whitespace = "compact"
    is_strict: bool = True
    """Whether a schema that cannot be enforced in full is rejected; if not, the rest of it is enforced."""
    close_at_limit: bool | None = None
    """Whether JSON that would be cut off by its limit is closed before, with the shortest values that are allowed.
    None: as the settings say."""
    whitespace_pattern: str | None = None
    """A regular expression in place of `whitespace`, as in vLLM."""

    @classmethod
    def json(
        cls, schema: Mapping[str, Any] | str | None = None, *, whitespace: Whitespace = "compact", **rest: Any
    ) -> Structure:
        """A JSON document that matches a JSON Schema; without a schema, any object."""
        source = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False, allow_nan=False)
        if schema is None:
            return cls(kind="json_object", whitespace=whitespace, **rest)
        return cls(kind="json_schema", source=source, whitespace=whitespace, **rest)

    @classmethod
    def regex(cls, pattern: str) -> Structure:
        """A text that matches the whole regular expression."""
        return cls(kind="regex", source=pattern)

    @classmethod
    def choice(cls, *texts: str) -> Structure:
        """One of these texts."""
        return cls(kind="choice", source=json.dumps(texts, ensure_ascii=False))

    @classmethod
    def grammar(cls, source: str, kind: Literal["gbnf", "lark"] = "gbnf") -> Structure:
        """A text that matches a grammar in llama.cpp's or Lark's notation."""
        return cls(kind=kind, source=source)

    def __post_init__(self) -> None:
        if len(self.source) > MAX_SOURCE_BYTES or len(self.source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
            raise InvalidParameter(f"{self.param} takes at most {MAX_SOURCE_BYTES} bytes; send less", param=self.param)


answers = partial(Setting, group="Structured answers")
GrammarBytes = Annotated[int, answers("Largest schema or grammar", "N", 1, MAX_SOURCE_BYTES)]
GrammarCpu = Annotated[int, answers("CPU time to compile a schema or grammar", "S", 1, 3600)]
GrammarMemory = Annotated[
    int,
    answers(
        "Memory to compile a schema or grammar", "MB", 128, 2**20, more="Of the separate process that tries it first."
    ),
]
GrammarStates = Annotated[int, answers("Lexer states of a grammar", "N", 100, 2**30, more="Some 2 KB each.")]
GrammarItems = Annotated[int, answers("Parser items per token", "N", 100, 2**30)]
GrammarFuel = Annotated[
    int, answers("Lexer fuel per token", "N", 100, 2**30, more="Expressions that the lexer creates.")
]

CloseAtLimit = Annotated[bool, answers(
    "Close JSON before its token limit cuts it off",
    more="With the shortest values that its schema allows. Requests may say otherwise (close_at_limit)."
)]  # fmt: skip


class GrammarLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits for the cost of a structure: of compiling it, and per token of an answer; and what becomes of a document
    at its own limit."""

    source_bytes: GrammarBytes = MAX_SOURCE_BYTES
    cpu_s: GrammarCpu = 2
    memory_mb: GrammarMemory = 512
    lexer_states: GrammarStates = 50_000
    step_items: GrammarItems = 20_000
    step_fuel: GrammarFuel = 50_000
    close_at_limit: CloseAtLimit = True

    def __post_init__(self) -> None:
        check_ranges(self)


class Tags(msgspec.Struct, frozen=True):
    """Literals around a part of an answer, such as reasoning."""

    opening: str
    closing: str


THOUGHTS = (
    Tags("<think>", "</think>"),
    Tags("<thinking>", "</thinking>"),
    Tags("<reasoning>", "</reasoning>"),
    Tags("<seed:think>", "</seed:think>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""Of DeepSeek, Qwen and most others; Granite and others; Seed; Mistral; Cohere."""

BEHIND_A_THOUGHT = "\n\n"
"""Between reasoning and a structured answer."""


class Preface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may precede a structured text: free-form reasoning, and what opens the text."""

    thought: Tags | None = None
    is_open: bool = False
    """Whether the prompt ends inside the reasoning, so that the answer begins there."""
    budget: int | None = None
    """Maximum number of reasoning tokens; None: limited only by the answer's length."""
    behind: str = BEHIND_A_THOUGHT
    """Text between the reasoning and what follows."""
    text: Tags | None = None
    """Literals around the text."""
