"""Users mention a brother, an aunt or a neighbor, and later ask about them, by name or with a pronoun."""

from __future__ import annotations

import random

from .data import read
from .grammar import Example, Phrasings, Split, assistant, mentions, say, user
from .name_lists import PEOPLE, city, made_up, with_article
from .reference_values import hobby, job
from .small_turns import turns

_DATA = read(__name__)

NOT_TOLD = "You have not told me that yet."
ACKNOWLEDGED = ("Okay, I will remember that.", "Thanks for telling me.")

_MEN = "brother;father;uncle;son;cousin;neighbor;boss;teacher;grandfather;friend;doctor;dad".split(";")
_WOMEN = "sister;mother;aunt;daughter;cousin;neighbor;boss;teacher;grandmother;friend;doctor;mom".split(";")

_OPENED = _DATA.phrasings("opened")
_MORE = ("{He} {fact}.", "{He} also {fact}.", "And {he} {fact}.")
_FACTS = _DATA.mapping("facts")
_ANSWERS = _DATA.mapping("answers")
_ASKED: dict[str, Phrasings] = _DATA.all_phrasings("asked")


class _Relative:
    """A person, and what is said about them."""

    def __init__(self, rng: random.Random, taken: str = "") -> None:
        he = rng.random() < 0.5
        self.rel = rng.choice([rel for rel in (_MEN if he else _WOMEN) if rel != taken])
        self.name = _name(rng, he)
        self.pronouns = {"He": "He", "he": "he", "His": "His", "his": "his"}
        if not he:
            self.pronouns = {"He": "She", "he": "she", "His": "Her", "his": "her"}
        told = rng.sample(list(_FACTS), rng.choice((1, 1, 2, 2, 3)))
        self.facts = {key: _value(rng, key) for key in told}

    def said(self, rng: random.Random, split: Split) -> list[str]:
        """What the user says about them, in one turn or two."""
        first, *more = [say(rng, rng.choice(_FACTS[key]), value=value) for key, value in self.facts.items()]
        texts = [
            _OPENED.say(
                rng, split, rel=self.rel, a_rel=with_article(self.rel), name=self.name, fact=first, **self.pronouns
            )
        ]
        for fact in more:
            text = say(rng, rng.choice(_MORE), fact=fact, **self.pronouns)
            if rng.random() < 0.6:
                texts[-1] += f" {text}"
            else:
                texts.append(text)
        return texts

    def asked(self, rng: random.Random, split: Split, key: str, pronoun: bool) -> tuple[str, str]:
        """A question about them, and the beginning of the answer."""
        who, whose = rng.choice(
            [(f"my {self.rel}", f"my {self.rel}'s"), (self.name, f"{self.name}'s")]
            + [(self.pronouns["he"], self.pronouns["his"])] * (3 * pronoun)
        )
        starts = {f"my {self.rel}": f"Your {self.rel}", self.name: self.name}
        question = _ASKED[key].say(rng, split, who=who, whose=whose, rel=self.rel, his=self.pronouns["his"])
        return question, f"Your {self.rel}" if key == "name" else starts.get(who, self.pronouns["He"])


def _name(rng: random.Random, he: bool) -> str:
    """A name of the right gender, judged by its last letter."""
    if rng.random() < 0.4:
        return made_up(rng)
    return rng.choice([name for name in PEOPLE if (name[-1] not in "aehny" if he else name[-1] == "a")])


def _value(rng: random.Random, key: str) -> str:
    """What is said about somebody."""
    match key:
        case "city":
            return city(rng)
        case "job":
            return job(rng)
        case "age":
            return str(rng.randint(3, 99))
    return hobby(rng)


def relatives(rng: random.Random, split: Split) -> Example:
    """The user mentions one or two people and asks about one of them."""
    people = [_Relative(rng)]
    if rng.random() < 0.4:
        people.append(_Relative(rng, people[0].rel))
    messages = turns(rng, (0, 0, 1))
    for each in people:
        for text in each.said(rng, split):
            messages += [user(text), assistant(rng.choice(ACKNOWLEDGED))]
    fillers = turns(rng, (0, 0, 1, 2, 3))
    messages += fillers
    whom = rng.choice(people)
    alone = whom is people[-1] and (len(people) == 1 or (not fillers and whom.pronouns != people[0].pronouns))
    if rng.random() < 0.12:
        key = rng.choice([key for key in _FACTS if key not in whom.facts] or ["none"])
        if key != "none":
            question, _ = whom.asked(rng, split, key, alone)
            return Example("reference", [*messages, user(question), assistant(NOT_TOLD)], mentions("not told"))
    key = rng.choice([*whom.facts, *whom.facts, "name"])
    question, start = whom.asked(rng, split, key, alone)
    value = whom.facts.get(key, whom.name)
    answer = say(rng, _ANSWERS[key], Who=start, name=whom.name, value=value)
    return Example("reference", [*messages, user(question), assistant(answer)], mentions(value))
