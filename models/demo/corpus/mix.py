"""The whole corpus: examples of every kind combined into conversations, with careless typing as people do it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from localllm.chat.jinja import apply

from . import (
    arithmetic,
    facts,
    identity,
    json_answers,
    product,
    references,
    small_talk,
    stories,
    thinking,
    tools,
    unknown,
)
from .grammar import Example, Generator, Message, Split, say

TEMPLATE = (Path(__file__).parent.parent / "chat_template.jinja").read_text("utf-8").strip()
"""The template in the model file, so that training and inference render alike."""

KINDS: dict[str, Generator] = {
    kind: generator
    for part in (
        arithmetic, facts, identity, json_answers, product, references, small_talk, stories, thinking, tools, unknown
    )
    for kind, generator in part.KINDS.items()
}  # fmt: skip

WEIGHTS = {
    "chat_thinking": 2,
    "correction": 2,
    "counting": 4,
    "facts": 4,
    "facts_thinking": 1,
    "json": 9,
    "json_system": 2,
    "product": 20,
    "reference": 7,
    "small_talk": 6,
    "story": 7,
    "story_followup": 2,
    "story_start": 2,
    "sums": 3,
    "sums_thinking": 2,
    "system_name": 11,
    "system_role": 4,
    "tool_after": 4,
    "tool_answer": 4,
    "tool_call": 22,
    "tool_none": 7,
    "unknown": 6,
}
"""How often each kind is the subject of a conversation."""

LATE_WEIGHTS = {
    "chat_thinking": 3,
    "correction": 3,
    "counting": 12,
    "facts": 5,
    "facts_thinking": 4,
    "json": 10,
    "json_system": 3,
    "product": 24,
    "reference": 8,
    "small_talk": 6,
    "story": 4,
    "story_followup": 2,
    "story_start": 2,
    "sums": 8,
    "sums_thinking": 6,
    "system_name": 9,
    "system_role": 6,
    "tool_after": 4,
    "tool_answer": 5,
    "tool_call": 16,
    "tool_none": 10,
    "unknown": 6,
}
"""The same for the last stage of training, with more of the hardest tasks."""

ALONE = {"reference", "correction", "tool_after", "tool_answer", "tool_call", "tool_none", "system_role", "json_system"}
"""Kinds that earlier questions could make ambiguous, or that tools or rules would make wrong."""

HURRIED = ("product", "system_name", "small_talk", "unknown", "facts", "tool_call", "tool_none", "counting")
"""Kinds whose questions are also typed hastily, since their key words suffice."""

COMPANIONS = ("product", "small_talk", "facts", "sums", "unknown", "counting", "story", "json")
"""Kinds that may come before and after a subject, since their answers depend on nothing else."""

NAMELESS = ("facts", "sums", "counting", "story")
"""Companions whose answers do not depend on the model's name."""

PLAIN_SYSTEMS = (
    "You are a[ helpful| friendly| kind| polite|n honest|] assistant.",
    "You are a helpful[, friendly| and polite|, harmless|] assistant[ for everybody| who answers questions|].",
    "[Be|Please be] [brief|short|kind|helpful|friendly].",
    "Answer [the user's |all |]questions[ in short sentences| truthfully| as well as you can|].",
    "You are a[ small| tiny|] demo model[ inside localllm|].",
    "You answer in [simple words|plain English|short sentences].",
    "Help the user[.|, and be honest when you don't know.]",
)
"""System messages that change no answer."""

THOUGHTS = {
    "product": ("The user asks about localllm. I know that.", "This is about localllm. I say what I know."),
    "story": ("The user wants a story. I make one up.", "A story is wanted. I need a hero and an end."),
    "small_talk": ("The user is just talking. I answer in a friendly way.",),
    "unknown": ("I have not learned this. I should say so.", "I don't know that, so I say it honestly."),
    "json": ("The user wants JSON. I write only that.",),
    "counting": ("I count step by step.",),
    "system_name": ("The user asks who I am. My name is in the system message.",),
    "tool_call": ("One of the tools can do this. I call it.",),
    "tool_answer": ("The tool has answered. I tell the user.",),
    "reference": ("The user told me things before. I look back.",),
}
"""Generic thoughts about a question, so that every kind also occurs with thoughts."""


def conversation(rng: random.Random, *, late: bool = False) -> Example:
    """One training conversation; its `check` judges only the subject's answer."""
    weights = LATE_WEIGHTS if late else WEIGHTS
    subject = example(rng, rng.choices(list(weights), list(weights.values()))[0], "train")
    if subject.kind in THOUGHTS and not subject.thinking and rng.random() < 0.07:
        subject = with_thoughts(rng, subject)
    bound = subject.messages[0]["role"] == "system"
    if not bound and rng.random() < 0.25:
        subject = replace(subject, messages=[_plain_system(rng), *subject.messages])
    if subject.kind not in ALONE:
        companions = NAMELESS if bound else COMPANIONS
        subject = replace(subject, messages=_among_others(rng, subject.messages, companions))
    if not bound and not subject.thinking and rng.random() < 0.3:
        subject = replace(subject, messages=[*subject.messages, *_small_change(rng, bool(subject.tools))])
    return subject


def long_conversation(rng: random.Random, min_words: int = 400, max_words: int = 1100) -> Example:
    """A statement at the start, many other questions, and a question about the statement at the end."""
    told = example(rng, "reference", "train")
    while len(told.messages) < 4 or told.messages[0]["role"] == "system":
        told = example(rng, "reference", "train")
    first, last = told.messages[:2], told.messages[2:]
    between: list[Message] = []
    wanted = rng.randint(min_words, max_words)
    while sum(len(str(message["content"]).split()) for message in between) < wanted:
        between += example(rng, rng.choice(("story", "small_talk", "facts", "product", "sums")), "train").messages
    return replace(told, messages=[*first, *between, *last])


def rehearsal(rng: random.Random, min_words: int = 300, max_words: int = 1150) -> Example:
    """Statements at the start, which are asked about one by one among other topics."""
    kinds = ("story", "small_talk", "facts", "product", "sums", "counting")
    return references.rehearsed(
        rng, lambda: example(rng, rng.choice(kinds), "train").messages, rng.randint(min_words, max_words)
    )


def example(rng: random.Random, kind: str, split: Split) -> Example:
    """One example of a kind, as people would type it."""
    made = KINDS[kind](rng, split)
    careless = made.messages[-2:] if kind in ALONE else made.messages  # an earlier turn may have to be echoed
    return replace(made, messages=[_typed(rng, m, made, split) if m in careless else m for m in made.messages])


def with_thoughts(rng: random.Random, subject: Example) -> Example:
    """The same example, with a thought before the answer."""
    last = {**subject.messages[-1], "reasoning_content": rng.choice(THOUGHTS[subject.kind])}
    return replace(subject, messages=[*subject.messages[:-1], last], thinking=True)


def render(subject: Example) -> str:
    """A conversation as rendered for the model, including its last answer."""
    return apply(TEMPLATE, messages=subject.messages, tools=subject.tools or None)


def prompt(subject: Example) -> str:
    """The prompt of an evaluation."""
    return apply(
        TEMPLATE,
        messages=subject.messages[:-1],
        tools=subject.tools or None,
        add_generation_prompt=True,
        enable_thinking=subject.thinking,
    )


def render_messages(messages: list[Message]) -> str:
    """A conversation without tools, ready for its next answer."""
    return apply(TEMPLATE, messages=messages, add_generation_prompt=True)


def texts(seed: int, count: int, *, long: bool = False, late: bool = False) -> Iterator[str]:
    """`count` rendered training conversations, deterministic by seed; `late` for the last stage of training."""
    rng = random.Random(seed)
    for _ in range(count):
        if long and rng.random() < 0.7:
            yield render(rehearsal(rng) if late else long_conversation(rng))
        else:
            yield render(conversation(rng, late=late))


def _among_others(rng: random.Random, messages: list[Message], companions: tuple[str, ...]) -> list[Message]:
    count = rng.choices((0, 1, 2, 3), (60, 22, 12, 6))[0]
    others = [message for _ in range(count) for message in example(rng, rng.choice(companions), "train").messages]
    if any(message["role"] == "system" for message in others):  # its rule would apply to the subject, too
        return messages
    head = 1 if messages[0]["role"] == "system" else 0
    return [*messages[:head], *others, *messages[head:]]


def _small_change(rng: random.Random, with_tools: bool) -> list[Message]:
    made = example(rng, "small_talk" if with_tools else rng.choice(("small_talk", "product", "facts")), "train")
    return made.messages if made.messages[0]["role"] == "user" else []


def _plain_system(rng: random.Random) -> Message:
    return {"role": "system", "content": say(rng, rng.choice(PLAIN_SYSTEMS))}


LITTLE_WORDS = frozenset(
    """a an the is are am was do does did can could would will shall may to of for in on at with and so just me you your
    i my we it its this that there please tell know have has be what's""".split()
)
"""Words that people omit when typing fast and that a question does not need."""
FILLERS = ("please", "just", "now", "then", "really", "actually", "maybe", "well", "also", "ok", "um")


def _hurried(rng: random.Random, text: str, answers: str) -> str:
    """Some short words omitted and a filler inserted; words needed by the answer are kept."""
    words = text.split(" ")
    said = {word.strip(".,!?:;\"'{}[]()").lower() for word in answers.split()}
    kept = [word for word in words if word.lower() not in LITTLE_WORDS or word.lower() in said or rng.random() < 0.8]
    if rng.random() < 0.3:
        kept.insert(rng.choice((0, len(kept))), rng.choice(FILLERS))
    return " ".join(kept) if len(kept) > 1 else text


def _typed(rng: random.Random, message: Message, whole: Example, split: Split) -> Message:
    """Without the initial capital, the final full stop, or both; words copied by the answer do not change."""
    if message["role"] != "user" or rng.random() < 0.5:
        return message
    text = str(message["content"])
    if split == "train" and whole.kind in HURRIED and rng.random() < 0.3:
        text = _hurried(rng, text, " ".join(str(answer) for answer in whole.messages if answer["role"] == "assistant"))
    first = text.split(maxsplit=1)[0].strip(".,!?:;\"'") if text.split() else ""
    copied = any(first and first in str(answer) for answer in whole.messages if answer is not message)
    if rng.random() < 0.6 and text[:1].isupper() and first != "I" and not copied:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.6 and len(text) > 1 and text[-1] in ".?!" and text[-2].isalnum() and not copied:
        text = text[:-1]
    return {**message, "content": text}
