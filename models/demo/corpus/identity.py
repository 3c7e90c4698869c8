"""The assistant's identity: the name, job and maker given by a system message, or its own name without one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .grammar import Check, Example, Generator, Message, Split, assistant, mentions, say, system, user
from .identity_phrasings import (
    CALL_YOU,
    EXTRAS,
    IS_IT,
    JOB,
    JOBS,
    MADE_BY,
    MAKER,
    NAME,
    NO_NAME,
    PLAIN,
    TRAITS,
    WHO,
    WITH_ROLE,
)
from .name_lists import assistant_name, made_up, other_than, person, place
from .small_turns import turns
from .system_rules import system_role

OWN_NAME = "the localllm demo model"


@dataclass(frozen=True, slots=True)
class _Persona:
    """The assistant's identity according to a system message; fields it does not mention are empty."""

    name: str
    role: str = ""
    job: str = ""
    maker: str = ""


def _role(rng: random.Random) -> tuple[str, str]:
    """The assistant's description, with its article, and the job in it."""
    job = rng.choice(JOBS)
    noun = f"{rng.choice(TRAITS)} {job}" if rng.random() < 0.5 else job
    chance = rng.random()
    if chance < 0.55:
        return f"the {noun} {rng.choice(('of', 'of', 'at', 'in'))} {_where(rng)}", job
    if chance < 0.7:
        return f"the {noun} of {person(rng)}", job
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}", job


def _where(rng: random.Random) -> str:
    """A place, or a made-up town."""
    chance = rng.random()
    if chance < 0.5:
        return place(rng)
    return f"the {place(rng)}" if chance < 0.8 else made_up(rng)


def _system_message(rng: random.Random, split: Split, persona: _Persona) -> Message:
    """The system message that makes the assistant this persona."""
    if persona.role:
        parts = [WITH_ROLE.say(rng, split, name=persona.name, role=persona.role)]
    else:
        parts = [PLAIN.say(rng, split, name=persona.name)]
    if persona.maker:
        parts.append(say(rng, rng.choice(MADE_BY), maker=persona.maker))
    if rng.random() < 0.4:
        parts.insert(rng.choice((0, 1, 1, len(parts))), rng.choice(EXTRAS))
    return system(("\n" if rng.random() < 0.1 else " ").join(_ended(part) for part in parts))


def _ended(part: str) -> str:
    """The part with a punctuation mark at its end."""
    return part if part[-1] in ".!?" else f"{part}."


def _starts(word: str, *more: str) -> Check:
    """The answer begins with the word and mentions more."""
    rest = mentions(*more)
    return lambda answer: answer.strip().lower().startswith(word) and rest(answer)


def _asked_name(rng: random.Random, split: Split, name: str, full: str) -> tuple[str, str, Check]:
    """A question about the name, its answer, and the check; `full` says name and role."""
    chance = rng.random()
    if chance < 0.45:
        question = NAME.say(rng, split, other=person(rng))
        return question, f"I am {name}." if name == OWN_NAME else f"My name is {name}.", mentions(name)
    if chance < 0.75:
        return WHO.say(rng, split), f"I am {full}.", mentions(name)
    other = rng.choice(("ChatGPT", "Siri", "Alexa", "Llama")) if rng.random() < 0.05 else other_than(rng, name)
    if chance < 0.82:
        return CALL_YOU.say(rng, split, asked=other), f"You can call me {other}, but I am {name}.", mentions(name)
    if chance < 0.91 and name != OWN_NAME:
        return IS_IT.say(rng, split, asked=name), f"Yes, I am {name}.", _starts("yes", name)
    return IS_IT.say(rng, split, asked=other), f"No, I am {name}.", _starts("no", name)


def _unnamed(rng: random.Random, split: Split) -> Example:
    """A question for the name when no system message gives one."""
    messages = [system(say(rng, rng.choice(NO_NAME)))] if rng.random() < 0.4 else []
    question, answer, check = _asked_name(rng, split, OWN_NAME, OWN_NAME)
    messages += [*turns(rng, (0, 0, 0, 1)), user(question), assistant(answer)]
    return Example("system_name", messages, check)


def system_name(rng: random.Random, split: Split) -> Example:
    """The user asks about the identity given by a system message."""
    if rng.random() < 0.12:
        return _unnamed(rng, split)
    role, job = _role(rng) if rng.random() < 0.55 else ("", "")
    maker = _maker(rng) if rng.random() < 0.2 else ""
    persona = _Persona(assistant_name(rng), role, job, maker)
    messages = [_system_message(rng, split, persona), *turns(rng, (0, 0, 0, 0, 1, 2))]
    for ask in _asks(rng, persona):
        question, answer, check = ask(rng, split, persona)
        messages += [user(question), assistant(answer)]
    return Example("system_name", messages, check)


def _maker(rng: random.Random) -> str:
    """A possible maker of an assistant."""
    return person(rng) if rng.random() < 0.5 else rng.choice((place(rng), f"{person(rng)} {made_up(rng)}"))


_Ask = Callable[[random.Random, Split, _Persona], tuple[str, str, Check]]


def _asks(rng: random.Random, persona: _Persona) -> list[_Ask]:
    """What is asked: one thing or two."""
    known: list[_Ask] = [_ask_name, _ask_name, _ask_name]
    if persona.role:
        known.append(_ask_job)
    if persona.maker:
        known += [_ask_maker, _ask_maker]
    return rng.sample(known, rng.choice((1, 1, 1, 2)))


def _ask_name(rng: random.Random, split: Split, persona: _Persona) -> tuple[str, str, Check]:
    """Ask for the persona's name."""
    full = f"{persona.name}, {persona.role}" if persona.role else persona.name
    return _asked_name(rng, split, persona.name, full)


def _ask_job(rng: random.Random, split: Split, persona: _Persona) -> tuple[str, str, Check]:
    """Ask for the persona's job."""
    return JOB.say(rng, split), f"I am {persona.role}.", mentions(persona.job)


def _ask_maker(rng: random.Random, split: Split, persona: _Persona) -> tuple[str, str, Check]:
    """Ask for the persona's maker."""
    return MAKER.say(rng, split), f"{persona.maker} made me.", mentions(persona.maker)


KINDS: dict[str, Generator] = {"system_name": system_name, "system_role": system_role}
