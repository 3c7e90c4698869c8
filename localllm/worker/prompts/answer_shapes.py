"""Decides the structure of an answer and what may precede it: from the request, the model's format and the prompt's
end. Knows nothing of how a grammar is written or compiled."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec

from localllm.chat.thoughts import beginning_of
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.types import AnswerSource, Beginning, Calling, ChatFormat, GenerationRequest
from localllm.types.structures import Preface, Structure, Tags
from localllm.worker.prompts.prompt_parts import Tokenizer


class AnswerShape(NamedTuple):
    """The shape of one answer."""

    structure: Structure | None
    """The structure its text must have; None: free text."""
    preface: Preface | None
    """What may precede that."""
    beginning: Beginning


NO_SHAPE = AnswerShape(None, None, "text")


def before_text(request: GenerationRequest, format: ChatFormat, ending: str) -> str:
    """What stands between a prompt with this ending and the text of an answer that does not think."""
    if not ending:
        return ""
    beginning, format = shape_of(request, format, ending).beginning, format.for_answer(request.rendering)
    closing = "" if format.thought is None or beginning != "thought" else format.thought.closing + format.behind_thought
    text = _behind(ending, format).text
    return closing if text is None else closing + text.opening


def shape_of(request: GenerationRequest, format: ChatFormat, ending: str) -> AnswerShape:
    """`ending`: how the rendered prompt ends; empty if it was not rendered. Raises `InvalidParameter`."""
    if not ending:
        return AnswerShape(request.structure, None, "text")
    format, messages = format.for_answer(request.rendering), request.messages or ()
    continued = messages[-1] if request.rendering.continues(messages) else None
    beginning = beginning_of(format, ending, continued)
    calling = _calling(request, format)
    if request.structure is not None and (calling is None or calling.choice == "none"):
        return AnswerShape(request.structure, _before_a_structure(request, format, beginning, ending), beginning)
    if calling is None and (request.thinking_budget is None or beginning == "text"):
        return AnswerShape(None, None, beginning)
    is_free = request.structure is None and (calling is None or calling.choice != "required")
    structure = Structure(
        kind="answer",
        source=_source(format if is_free else _behind(ending, format), calling, request.structure),
        param="thinking_budget" if calling is None else "tools",
    )
    return AnswerShape(structure, _before_an_answer(request, format, beginning, calling), beginning)


def control_tokens(literals: tuple[str, ...], vocab: Tokenizer) -> frozenset[int]:
    """Tokens of which these texts consist and that occur in no other text."""
    tokens: set[int] = set()
    for literal in literals:
        with suppress(InvalidParameter):  # a character without a token here: the model cannot write it
            for step in vocab.tokenize_in_steps(literal, add_special=False, parse_special=True):
                tokens.update(step)
    return frozenset(token for token in tokens if not vocab.token_bytes(token))


def _calling(request: GenerationRequest, format: ChatFormat) -> Calling | None:
    """What may be called; None: unrestricted."""
    calling = request.calling
    if calling is None or not calling.functions:
        return None
    if format.calls is None:
        if calling.choice == "required":
            raise UnsupportedParameter("this model's chat template has no way to call tools", param="tools")
        return None
    return calling


def _source(format: ChatFormat, calling: Calling | None, text: Structure | None) -> str:
    if calling is None:
        source = AnswerSource(format=format, choice="none")
    else:
        source = AnswerSource(
            format=format,
            functions=calling.functions,
            choice=calling.choice,
            parallel=calling.parallel,
            text=text if calling.choice == "auto" else None,
        )
    return msgspec.json.encode(source).decode()


def _behind(ending: str, format: ChatFormat) -> ChatFormat:
    """The format of an answer to a prompt with this ending, which may contain the text's opening or an answer's
    start."""
    if format.text is not None and ending.rstrip().endswith(format.text.opening.strip()):
        return msgspec.structs.replace(format, text=None)
    if not format.opened or not ending.endswith(format.opened):
        return format
    text, calls = format.text, format.calls
    if text is not None:
        text = Tags(text.opening.removeprefix(format.opened), text.closing)
    if calls is not None and not calls.begin:
        call = msgspec.structs.replace(calls.call, before=calls.call.before.removeprefix(format.opened))
        calls = msgspec.structs.replace(calls, call=call, between=calls.between + format.opened)
    return msgspec.structs.replace(format, text=text, calls=calls, opened="")


def _before_a_structure(
    request: GenerationRequest, format: ChatFormat, beginning: Beginning, ending: str
) -> Preface | None:
    text, budget = _behind(ending, format).text, request.thinking_budget
    if format.thought is None or beginning == "text" or (budget == 0 and beginning == "either"):
        return None if text is None else Preface(text=text)
    return Preface(
        thought=format.thought,
        is_open=beginning == "thought",
        budget=budget,
        behind=format.behind_thought,
        text=text,
    )


def _before_an_answer(
    request: GenerationRequest, format: ChatFormat, beginning: Beginning, calling: Calling | None
) -> Preface | None:
    """Free text follows reasoning as the model prefers; constrained text follows it as the model was trained."""
    if format.thought is None or beginning == "text":
        return None
    is_forced = calling is not None and (calling.choice == "required" or request.structure is not None)
    return Preface(
        thought=format.thought,
        is_open=beginning == "thought",
        budget=request.thinking_budget,
        behind=format.behind_thought if is_forced else "",
    )
