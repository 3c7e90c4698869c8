"""Short turns of small talk and simple facts, that fill conversations whose point is another one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .grammar import Message, Phrasings, Split, assistant, say, user


@dataclass(frozen=True, slots=True)
class Fact:
    """A simple question, its answer, and the one word that matters in it."""

    question: str
    answer: str
    word: str


_COLORS = {
    "grass": "green", "snow": "white", "coal": "black", "milk": "white", "blood": "red", "chocolate": "brown",
    "the sky": "blue", "the sun": "yellow", "the sea": "blue", "a lemon": "yellow", "a banana": "yellow",
    "a tomato": "red", "a strawberry": "red", "a carrot": "orange", "a frog": "green", "a crow": "black",
    "a swan": "white", "a pumpkin": "orange", "a leaf": "green", "a cherry": "red", "salt": "white", "a pig": "pink",
}  # fmt: skip
_SOUNDS = {
    "dog": "woof", "cat": "meow", "cow": "moo", "duck": "quack", "sheep": "baa", "pig": "oink", "bee": "buzz",
    "snake": "hiss", "mouse": "squeak", "lion": "roar", "wolf": "howl", "frog": "croak", "horse": "neigh",
}  # fmt: skip
_OPPOSITES = {
    "hot": "cold", "cold": "hot", "big": "small", "small": "big", "up": "down", "down": "up", "day": "night",
    "night": "day", "fast": "slow", "slow": "fast", "old": "new", "happy": "sad", "sad": "happy", "black": "white",
    "white": "black", "open": "closed", "wet": "dry", "dry": "wet", "left": "right", "hard": "soft", "soft": "hard",
    "light": "dark", "dark": "light", "full": "empty", "empty": "full", "rich": "poor", "early": "late", "yes": "no",
    "long": "short", "high": "low", "good": "bad", "bad": "good", "true": "false", "loud": "quiet", "strong": "weak",
}  # fmt: skip
_LEGS = {
    "dog": "four", "cat": "four", "spider": "eight", "bird": "two", "horse": "four", "cow": "four", "duck": "two",
    "snake": "no", "fish": "no", "ant": "six", "bee": "six", "mouse": "four", "frog": "four", "hen": "two",
}  # fmt: skip

_COLOR_ASKED = Phrasings(
    (
        "What color is {it}?",
        "[What's|What is] the color of {it}?",
        "Which color is {it}?",
        "Tell me the color of {it}.",
    ),
    ("Which color does {it} have?", "The color of {it}?"),
)
_SOUND_ASKED = Phrasings(
    ("What does a {it} say?", "What sound does a {it} make?", "[What's|What is] the sound of a {it}?"),
    ("Which sound does a {it} make?", "Tell me what a {it} says."),
)
_OPPOSITE_ASKED = Phrasings(
    ("What is the opposite of {it}?", "[Tell me|Give me] the opposite of {it}.", "Opposite of {it}?"),
    ("Which word is the opposite of {it}?", "What's the opposite of {it}?"),
)
_LEGS_ASKED = Phrasings(
    ("How many legs does {it} have?", "How many legs has {it} got?", "Tell me how many legs {it} has."),
    ("The number of legs of {it}?", "How many legs are there on {it}?"),
)

_TURNS = (
    ("[Hi|Hello|Hey]!", "Hello! How can I help you?"),
    ("[Hi there|Hello there|Good day].", "Hello! How can I help you?"),
    ("Good morning!", "Good morning! How can I help you?"),
    ("Good evening!", "Good evening! How can I help you?"),
    ("How are you[ today|]?", "I am fine, thank you."),
    ("How [is it going|are things]?", "I am fine, thank you."),
    ("[Thanks|Thanks a lot|Thank you|Thank you very much]!", "You are welcome."),
    ("[Great|Nice|Cool|Perfect|Very good].", "I am glad."),
    ("[Okay|OK|All right|I see].", "Is there anything else I can do?"),
    ("That was [good|helpful|nice].", "I am glad to help."),
    ("[You are|You're] [nice|kind|great].", "Thank you! That is kind of you."),
    ("I am [a bit |]tired[ today|].", "Then take a short rest."),
    ("I am [a bit |]hungry.", "Then eat something good."),
    ("I am [so |]bored.", "Let us talk, then."),
    ("It is raining[ here|].", "Then stay dry."),
    ("It is [cold|very cold] [today|here].", "Then keep warm."),
    ("The sun is shining[ today|].", "What a nice day!"),
    ("[Wait|Just] a moment[, please|].", "Sure, take your time."),
    ("I am back.", "Welcome back!"),
    ("I had a [long|hard|busy] day.", "I hope your evening is better."),
    ("How many days are in a week?", "A week has seven days."),
    ("How many hours are in a day?", "A day has 24 hours."),
    ("How many minutes are in an hour?", "An hour has 60 minutes."),
    ("How many months are in a year?", "A year has twelve months."),
    ("What comes after Monday?", "Tuesday comes after Monday."),
    ("What comes after Friday?", "Saturday comes after Friday."),
    ("What is ice made of?", "Ice is made of water."),
    ("What do bees make?", "Bees make honey."),
    ("Where do fish live?", "Fish live in water."),
    ("What do cows eat?", "Cows eat grass."),
    ("What is bread made of?", "Bread is made of flour and water."),
    ("Is the sun hot?", "Yes, the sun is very hot."),
    ("Can birds fly?", "Yes, most birds can fly."),
    ("Can a fish walk?", "No, a fish can't walk. It swims."),
    ("Do dogs bark?", "Yes, dogs bark."),
    ("Is ice cold?", "Yes, ice is cold."),
    ("What do we drink from?", "We drink from a cup."),
    ("I had a good day.", "I am glad to hear that."),
    ("What is two plus two?", "Two plus two is four."),
    ("What is a baby dog called?", "A baby dog is called a puppy."),
    ("What is a baby cat called?", "A baby cat is called a kitten."),
)


def fact(rng: random.Random, split: Split) -> Fact:
    """A simple fact that one word answers."""
    topic = rng.choice(("color", "sound", "opposite", "opposite", "legs"))
    if topic == "color":
        it, word = _pick(rng, _COLORS)
        return Fact(_COLOR_ASKED.say(rng, split, it=it), f"{it.capitalize()} is {word}.", word)
    if topic == "sound":
        it, word = _pick(rng, _SOUNDS)
        return Fact(_SOUND_ASKED.say(rng, split, it=it), f"A {it} says {word}.", word)
    if topic == "opposite":
        it, word = _pick(rng, _OPPOSITES)
        return Fact(_OPPOSITE_ASKED.say(rng, split, it=it), f"The opposite of {it} is {word}.", word)
    it, word = _pick(rng, _LEGS)
    animal = f"an {it}" if it[0] in "ao" else f"a {it}"
    return Fact(
        _LEGS_ASKED.say(rng, split, it=animal),
        f"{animal.capitalize()} has {word} legs.",
        "none" if word == "no" else word,
    )


def turn(rng: random.Random) -> list[Message]:
    """One short turn of the user and its answer."""
    if rng.random() < 0.3:
        known = fact(rng, "train")
        return [user(known.question), assistant(known.answer)]
    question, answer = rng.choice(_TURNS)
    return [user(say(rng, question)), assistant(answer)]


def turns(rng: random.Random, counts: Sequence[int]) -> list[Message]:
    """As many short turns as one of the counts."""
    return [message for _ in range(rng.choice(counts)) for message in turn(rng)]


def _pick(rng: random.Random, table: dict[str, str]) -> tuple[str, str]:
    """An entry."""
    return rng.choice(list(table.items()))
