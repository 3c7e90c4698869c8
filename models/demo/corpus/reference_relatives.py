"""Users tell of a brother, an aunt, a neighbor, and later ask about them, by name or with a pronoun."""

from __future__ import annotations

import random

from .grammar import Example, Phrasings, Split, assistant, mentions, say, user
from .name_lists import PEOPLE, city, made_up, with_article
from .reference_values import hobby, job
from .small_turns import turns

NOT_TOLD = "You have not told me that yet."
ACKNOWLEDGED = ("Okay, I will remember that.", "Thanks for telling me.")

_MEN = "brother;father;uncle;son;cousin;neighbor;boss;teacher;grandfather;friend;doctor;dad".split(";")
_WOMEN = "sister;mother;aunt;daughter;cousin;neighbor;boss;teacher;grandmother;friend;doctor;mom".split(";")

_OPENED = Phrasings(
    (
        "My {rel} is called {name}. {He} {fact}.",
        "My {rel} {name} {fact}.",
        "My {rel}'s name is {name}. {He} {fact}.",
        "I have {a_rel} called {name}. {He} {fact}.",
        "My {rel} is {name}. {He} {fact}.",
        "{name} is my {rel}. {He} {fact}.",
        "The name of my {rel} is {name}. {He} {fact}.",
        "By the way, my {rel} {name} {fact}.",
    ),
    ("I have {a_rel}. {His} name is {name}. {He} {fact}.", "By the way, {name} is my {rel}. {He} {fact}."),
)
_MORE = ("{He} {fact}.", "{He} also {fact}.", "And {he} {fact}.")
_FACTS = {
    "city": ("lives in {value}", "has a house in {value}"),
    "job": ("is {value}", "works as {value}"),
    "age": ("is {value} years old",),
    "hobby": ("likes {value}", "loves {value}"),
}
_ANSWERS = {
    "name": "{Who} is called {name}.",
    "city": "{Who} lives in {value}.",
    "job": "{Who} is {value}.",
    "age": "{Who} is {value} years old.",
    "hobby": "{Who} likes {value}.",
}
_ASKED: dict[str, Phrasings] = {
    "name": Phrasings(
        (
            "What is my {rel} called?", "[What's|What is] my {rel}'s name?", "[What's|What is] the name of my {rel}?",
            "Do you know my {rel}'s name?", "Do you remember the name of my {rel}?", "My {rel}'s name?",
            "Tell me my {rel}'s name[, please|].", "What did I say my {rel} is called?", "How is my {rel} called?",
            "[And|So], what is my {rel} called?", "What was my {rel}'s name[ again|]?", "The name of my {rel}?",
            "Which name does my {rel} have?", "[Can|Could] you tell me the name of my {rel}?",
            "Say the name of my {rel}.", "What do I call my {rel}?", "What was the name of my {rel}?",
            "Who is my {rel}?", "What do you call my {rel}?",
        ),
        (
            "Do you still know my {rel}'s name?", "Please tell me what my {rel} is called.",
            "What name does my {rel} have?",
        ),
    ),
    "city": Phrasings(
        (
            "Where does {who} live?", "Where is {who} from?", "Which [city|town] does {who} live in?",
            "Where is {whose} home?", "In which [city|town] does {who} live?", "Do you know where {who} lives?",
            "Tell me where {who} lives.", "Do you remember where {who} lives?", "Where did I say {who} lives?",
            "Where's {whose} home?", "[Can|Could] you tell me where {who} lives?", "And where does {who} live?",
            "So where does {who} live?", "Where does {who} come from?", "What [city|town] is {who} from?",
            "[What's|What is] {whose} [city|town]?", "Where is {whose} house?",
            "I forgot where {who} lives. Where is it?", "Say where {who} lives.",
        ),
        ("What town does {who} live in?", "Please tell me where {who} lives.", "Do you still know where {who} lives?"),
    ),
    "job": Phrasings(
        (
            "[What's|What is] {whose} job?", "What does {who} do[ for work|]?", "What does {who} work as?",
            "Which job does {who} have?", "Do you know {whose} job?", "Do you remember {whose} job?",
            "Say what {who} does.", "Tell me {whose} job.", "What did I say {whose} job is?",
            "[Can|Could] you tell me {whose} job?", "And what is {whose} job?", "So what does {who} do?",
            "What kind of work does {who} do?", "What is {whose} work?", "What was {whose} job again?",
            "Do you know what {who} does for work?", "What is it that {who} does for work?",
            "What job does {who} have?", "Do you still know {whose} job?",
        ),
        (
            "Please tell me what {whose} job is.", "What work does {who} do?",
            "Do you remember what {who} does for work?",
        ),
    ),
    "age": Phrasings(
        (
            "How old is {who}?", "[What's|What is] {whose} age?", "Do you know how old {who} is?",
            "And how old is {who}?", "Tell me how old {who} is.", "Tell me {whose} age.",
            "Do you remember how old {who} is?", "Say how old {who} is.", "[Can|Could] you tell me how old {who} is?",
            "How many years old is {who}?", "How old did I say {who} is?", "What age is {who}?",
            "So how old is {who}[ now|]?", "What did I say {whose} age is?", "Do you know {whose} age?",
            "Do you remember {whose} age?", "How old was {who} again?", "What was {whose} age[ again|]?",
            "Do you still know {whose} age?",
        ),
        ("Please tell me how old {who} is.", "Do you still know how old {who} is?", "Could you tell me {whose} age?"),
    ),
    "hobby": Phrasings(
        (
            "What does {who} like?", "What does {who} like to do?", "[What's|What is] {whose} hobby?",
            "What does {who} love?", "What does {who} enjoy?", "Do you know what {who} likes?",
            "Do you remember what {who} likes?", "Tell me what {who} likes.", "What did I say {who} likes?",
            "And what does {who} like?", "Say what {who} likes.", "[Can|Could] you tell me what {who} likes?",
            "What does {who} do in {his} free time?", "Which hobby does {who} have?", "Do you know {whose} hobby?",
            "Do you remember {whose} hobby?", "Tell me {whose} hobby.", "So what does {who} like?",
            "What was {whose} hobby again?",
        ),
        (
            "What hobby does {who} have?", "Please tell me what {who} likes to do.",
            "Do you still know what {who} likes?",
        ),
    ),
}  # fmt: skip


class _Relative:
    """Somebody told of, and what is said of them."""

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
        """What the user says of them, one turn or two."""
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
        """A question about them, and the answer's start."""
        who, whose = rng.choice(
            [(f"my {self.rel}", f"my {self.rel}'s"), (self.name, f"{self.name}'s")]
            + [(self.pronouns["he"], self.pronouns["his"])] * (3 * pronoun)
        )
        starts = {f"my {self.rel}": f"Your {self.rel}", self.name: self.name}
        question = _ASKED[key].say(rng, split, who=who, whose=whose, rel=self.rel, his=self.pronouns["his"])
        return question, f"Your {self.rel}" if key == "name" else starts.get(who, self.pronouns["He"])


def _name(rng: random.Random, he: bool) -> str:
    """A name that fits, as far as its last letter tells."""
    if rng.random() < 0.4:
        return made_up(rng)
    return rng.choice([name for name in PEOPLE if (name[-1] not in "aehny" if he else name[-1] == "a")])


def _value(rng: random.Random, key: str) -> str:
    """What is said of somebody."""
    match key:
        case "city":
            return city(rng)
        case "job":
            return job(rng)
        case "age":
            return str(rng.randint(3, 99))
    return hobby(rng)


def relatives(rng: random.Random, split: Split) -> Example:
    """One or two people are told of, and one of them is asked about."""
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
