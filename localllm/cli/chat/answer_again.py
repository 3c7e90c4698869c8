"""`/model`, `/regen`, `/retry`, `/edit` and `/undo`: the last message answered again, or another in its place.

Knows no terminal and no HTTP.
"""

from __future__ import annotations

import msgspec

from localllm.cli.chat import writing
from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.kept.save_commands import count, excerpt
from localllm.cli.chat.kept.saved import Turn
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.types import RANDOM_SEED


def model(chat: Conversation, argument: str) -> None:
    """`/model [NAME]`. Raises `UnsupportedParameter`, and what loading raises."""
    if not argument:
        names = chat.talk.model_names()
        report.say("\n".join(f"{'*' if name == chat.talk.model_id else ' '} {name}" for name in names))
        return
    if chat.switch is None:
        raise UnsupportedParameter(
            "this chat cannot switch models; start another one with `localllm run`", param="model"
        )
    talk = chat.switch(argument)
    talk.params, talk.think, talk.tools = chat.talk.params, chat.talk.think, chat.talk.tools
    talk.attachments = chat.talk.attachments
    chat.talk = talk
    continues = "; the conversation continues" if chat.turns and not talk.raw else ""
    report.say(f"switched to {talk.model_id}{continues}")
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template: it continues each line, without the conversation")


def regen(chat: Conversation, _: str) -> None:
    """`/regen`: also a message that got no answer. Raises what answering raises."""
    if chat.unanswered is not None:
        chat.ask(chat.unanswered)
        return
    place = _last_question(chat)
    if place is None:
        report.say("there is no message to answer again")
        return
    removed, chat.turns = chat.turns[place:], chat.turns[:place]
    num_before = len(chat.turns)
    ends_with_result = removed[-1].role == "tool" and not removed[-1].interrupted  # the answer to it is missing
    params = chat.talk.params
    if not ends_with_result and (params.seed not in (None, RANDOM_SEED) or params.temperature == 0):
        why = "temperature is 0" if params.temperature == 0 else f"seed is {params.seed}"
        report.say(f"the answer will likely be the same: {why}")
    try:
        chat.resume(removed if ends_with_result else removed[:1])
    finally:
        if len(chat.turns) == num_before:  # no new answer, so the old one stays
            chat.turns += removed


def retry(chat: Conversation, argument: str) -> None:
    """`/retry MODEL`. Raises as `model` and `regen`."""
    if not argument:
        raise InvalidParameter("which model? /retry MODEL; /model lists them", param="model")
    if chat.unanswered is None and _last_question(chat) is None:
        report.say("there is no message to answer again")
        return
    if argument != chat.talk.model_id:
        model(chat, argument)
    regen(chat, "")


def edit(chat: Conversation, argument: str) -> None:
    """`/edit [TEXT]`: the last message, or a new one that begins with the text. Raises what answering raises, and
    `LocalLLMError` if there is no editor."""
    place = None if argument or chat.unanswered is not None else _last_question(chat)
    before = None if argument else chat.unanswered if place is None else chat.turns[place]
    start = argument if before is None else before.content
    text = writing.written(start)
    if not text.strip() or (before is not None and text == start):
        report.say("nothing was changed, so nothing is sent")
    elif before is None:
        chat.answer(text)
    else:
        _ask_instead(chat, place, msgspec.structs.replace(before, content=text))


def _ask_instead(chat: Conversation, place: int | None, question: Turn) -> None:
    """Send it in place of the exchange that begins there, which stays if no answer comes."""
    removed = [] if place is None else chat.turns[place:]
    chat.turns = chat.turns if place is None else chat.turns[:place]
    num_before = len(chat.turns)
    try:
        chat.ask(question)
    finally:
        if len(chat.turns) == num_before:
            chat.turns += removed


def undo(chat: Conversation, _: str) -> None:
    """`/undo`: what is attached, the last exchange, or what `/clear` removed."""
    place = _last_question(chat)
    if chat.pending:
        report.say(f"took back: {' '.join(each.shown for each in chat.pending)}")
        chat.pending = []
    elif place is not None:
        report.say(f"took back: {excerpt(chat.turns[place].shown)}")
        del chat.turns[place:]
        chat.is_saved = False
    elif chat.cleared:
        chat.turns, chat.cleared = chat.cleared, []
        report.say(f"restored {count(len(chat.turns))}")
    else:
        report.say("there is nothing to take back")


def _last_question(chat: Conversation) -> int | None:
    """The index in `turns` where the last exchange begins."""
    places = [place for place, turn in enumerate(chat.turns) if turn.role == "user"]
    return places[-1] if places else None
