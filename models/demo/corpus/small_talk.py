"""Small talk: greetings, moods, likes, jokes, riddles, poems, and requests to repeat or spell something."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from .data import read
from .grammar import Check, Example, Generator, Message, Phrasings, Split, assistant, mentions, mentions_one_of, user
from .small_talk_phrases import INTENTS, Intent
from .small_talk_texts import (
    ACTIVITIES,
    ADJECTIVES,
    COPIED_POEM,
    JOKES,
    NOUNS,
    PETS,
    PLAIN_WORDS,
    PLURALS,
    POEM_THINGS,
    POEMS,
    RIDDLES,
    SENTENCES,
    THREE_LINES,
)
from .small_talk_themes import FAVORITE, FAVORITES, MOOD, MOODS, THEMES

_DATA = read(__name__)

LIKE = _DATA.phrasings("like")
DISLIKE = _DATA.phrasings("dislike")
PET = _DATA.phrasings("pet")
JOKE = _DATA.phrasings("joke")
MORE = _DATA.phrasings("more")
RIDDLE = _DATA.phrasings("riddle")
SOLUTION = _DATA.phrasings("solution")
GUESS = _DATA.phrasings("guess")
POEM_FORM = _DATA.phrasings("poem_form")
HAIKU_FORM = _DATA.phrasings("haiku_form")
REPEAT = _DATA.phrasings("repeat")
SPELL = _DATA.phrasings("spell")

NO_SENSE = "I do not understand that. Please say it in other words."
KEYS = _DATA.texts("keys")
UNKIND = re.compile("nig|kok|fag|tit|kuk|dik|fuk|gas|naz|rap|pis|poo|pen[ui]|put[ao]|kil|dead|^[a-z]*ass")
"""Sounds that made-up words must not contain."""


def made_word(rng: random.Random, syllables: int) -> str:
    """A made-up word, in lower case."""
    while True:
        word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(syllables))
        word += rng.choice(["", "", "n", "r", "s", "k", "l", "x", "th", "nd"])
        if UNKIND.search(word) is None:
            return word


def tidy(text: str) -> str:
    """Without the spaces left by an empty alternative."""
    return re.sub(r" +([.,!?])", r"\1", re.sub(r" {2,}", " ", text)).strip()


def asked(rng: random.Random, split: Split, phrases: Phrasings, **fillers: str) -> str:
    """The user's text; `{Thing}` is the thing, capitalized."""
    capitals = {key.capitalize(): value[:1].upper() + value[1:] for key, value in fillers.items()}
    return tidy(phrases.say(rng, split, **fillers, **capitals))


def talk(check: Check, *contents: str) -> Example:
    """Alternating messages; the last answer is checked."""
    messages: list[Message] = [(assistant if turn % 2 else user)(content) for turn, content in enumerate(contents)]
    return Example("small_talk", messages, check)


def same(text: str) -> Check:
    """The answer is this text, in any case, spacing and surrounding punctuation."""

    def bare(written: str) -> str:
        return " ".join(written.lower().strip(" \n.!\"'").split())

    return lambda answer: bare(answer) == bare(text)


def from_intent(rng: random.Random, split: Split, chosen: Intent) -> Example:
    """An intent's phrase and one of its answers."""
    return talk(mentions_one_of(*chosen.words), asked(rng, split, chosen.asked), rng.choice(chosen.answers))


def plain(rng: random.Random, split: Split) -> Example:
    """Greetings, thanks, questions about the model as a person."""
    return from_intent(rng, split, rng.choice(INTENTS))


def themed(rng: random.Random, split: Split) -> Example:
    """Advice, encouragement, the day, the weather."""
    return from_intent(rng, split, rng.choice(THEMES))


def mood(rng: random.Random, split: Split) -> Example:
    """How the person feels."""
    adjectives, answer, words = rng.choice(MOODS)
    question = asked(rng, split, MOOD, mood=rng.choice(adjectives.split("|")))
    return talk(mentions_one_of(*words.split(", ")), question, answer)


def favorite(rng: random.Random, split: Split) -> Example:
    """What the model likes best."""
    names, answer, word = rng.choice(FAVORITES)
    question = asked(rng, split, FAVORITE, thing=rng.choice(names.split("|")))
    return talk(mentions_one_of(*word.split(", ")), question, answer)


def like(rng: random.Random, split: Split) -> Example:
    """What the person likes or dislikes, repeated back."""
    many = rng.random() < 0.5
    thing = rng.choice(PLURALS if many else ACTIVITIES)
    if many and rng.random() < 0.5:
        thing = f"{rng.choice(ADJECTIVES)} {thing}"
    elif not many and rng.random() < 0.3:
        thing = (
            f"{rng.choice(['a game', 'a book', 'a song', 'a place', 'a town'])} called {made_word(rng, 2).capitalize()}"
        )
    capital = thing[:1].upper() + thing[1:]
    if rng.random() < 0.25:
        answer = f"I see, {thing} {'are' if many else 'is'} not for everyone. What do you like more?"
        return talk(mentions(thing), asked(rng, split, DISLIKE, thing=thing), answer)
    answer = f"{capital} {'sound' if many else 'sounds'} nice! What do you like most about {'them' if many else 'it'}?"
    return talk(mentions(thing), asked(rng, split, LIKE, thing=thing), answer)


def pet(rng: random.Random, split: Split) -> Example:
    """The person's pet and its name."""
    animal, name = rng.choice(PETS), made_word(rng, rng.choice([1, 2, 2, 3])).capitalize()
    return talk(
        mentions(name), asked(rng, split, PET, pet=animal, name=name), f"{name} is a lovely name for a {animal}!"
    )


def joke(rng: random.Random, split: Split) -> Example:
    """A joke, or a second one."""
    first, second = rng.sample(JOKES, 2)
    told = mentions_one_of(*(text.split("? ")[1] for text in JOKES))
    if rng.random() < 0.7:
        return talk(told, asked(rng, split, JOKE), second)
    return talk(told, asked(rng, split, JOKE), first, asked(rng, split, MORE), second)


def riddle(rng: random.Random, split: Split) -> Example:
    """A riddle, its solution, or whether a guess is right."""
    (riddle_asked, solution), (_, other) = rng.sample(RIDDLES, 2)
    opening, part = asked(rng, split, RIDDLE), rng.random()
    if part < 0.4:
        return talk(mentions("What am I"), opening, riddle_asked)
    is_right = mentions(solution.split()[-1])
    if part < 0.7:
        return talk(is_right, opening, riddle_asked, asked(rng, split, SOLUTION), f"It is {solution}.")
    if part < 0.85:
        guess, answer, extra = solution, f"Yes, that is right! It is {solution}.", mentions("yes")
    else:
        guess, answer, extra = other, f"No, it is not {other}. It is {solution}.", mentions("no")
    question = asked(rng, split, GUESS, thing=guess.replace("your", "my"))
    return talk(lambda text: is_right(text) and extra(text), opening, riddle_asked, question, answer)


def about(rng: random.Random, theme: str) -> str:
    """The names used in requests."""
    return rng.choice(["about {}", "about {}", "about {}", "on {}"]).format(theme)


def has_lines(count: int, word: str) -> Check:
    """The right number of lines, containing the word."""
    named = mentions(word)
    return lambda answer: len(answer.strip().splitlines()) == count and (not word or named(answer))


def poem(rng: random.Random, split: Split) -> Example:
    """Four lines that rhyme."""
    theme, draw = rng.choice(list(POEMS)), rng.random()
    if draw < 0.5:
        check = has_lines(4, theme.split()[-1])
        return talk(check, asked(rng, split, POEM_FORM, about=about(rng, theme)), POEMS[theme])
    if draw < 0.7:
        return talk(has_lines(4, ""), asked(rng, split, POEM_FORM, about=""), POEMS[theme])
    thing = rng.choice(POEM_THINGS)
    question = asked(rng, split, POEM_FORM, about=about(rng, thing))
    return talk(has_lines(4, thing), question, COPIED_POEM.format(thing=thing))


def three_lines(rng: random.Random, split: Split) -> Example:
    """Three lines without rhyme."""
    theme = rng.choice(list(THREE_LINES))
    named = rng.random() < 0.7
    question = asked(rng, split, HAIKU_FORM, about=about(rng, theme) if named else "")
    return talk(has_lines(3, theme.split()[-1] if named else ""), question, THREE_LINES[theme])


def phrase(rng: random.Random) -> str:
    """One to eight words, real and made up."""
    if rng.random() < 0.4:
        fill = {"noun": rng.choice(NOUNS), "adjective": rng.choice(ADJECTIVES)}
        made = iter([made_word(rng, 2).capitalize(), made_word(rng, 2).capitalize()])
        text = rng.choice(SENTENCES).format(**fill, made="{made}")
        return re.sub(r"\{made\}", lambda _: next(made), text)
    words = [
        rng.choice(PLAIN_WORDS) if rng.random() < 0.6 else made_word(rng, rng.choice([1, 2, 2, 3])) for _ in range(8)
    ]
    if rng.random() < 0.1:
        words[0] = str(rng.randrange(1000))
    return " ".join(words[: rng.choice([1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8])])


def repeat(rng: random.Random, split: Split) -> Example:
    """Repeated exactly."""
    text = phrase(rng)
    return talk(same(text), REPEAT.say(rng, split, text=text), text)


def spell(rng: random.Random, split: Split) -> Example:
    """The letters of a word, real or made up."""
    real = rng.random() < 0.4
    word = rng.choice(PLAIN_WORDS) if real else made_word(rng, rng.choice([1, 2, 2, 3]))
    word = word if 3 <= len(word) <= 7 else made_word(rng, 2)
    spelled = "-".join(word)
    return talk(same(spelled), tidy(SPELL.say(rng, split, text=word)), spelled)


def gibberish(rng: random.Random, split: Split) -> Example:
    """Random keystrokes; evaluations have more of them at once."""
    count = rng.choice([1, 1, 2, 2, 3, 5]) if split == "train" else 4
    keys = [
        rng.choice(KEYS) if rng.random() < 0.5 else "".join(rng.choices("asdfghjklqwrtpxcvbnm", k=rng.randint(3, 8)))
        for _ in range(count)
    ]
    return talk(mentions("other words"), " ".join(keys), NO_SENSE)


PARTS: tuple[tuple[Callable[[random.Random, Split], Example], int], ...] = (
    (plain, 32),
    (themed, 14),
    (mood, 10),
    (favorite, 5),
    (like, 9),
    (pet, 3),
    (joke, 5),
    (riddle, 6),
    (poem, 8),
    (three_lines, 3),
    (repeat, 14),
    (spell, 8),
    (gibberish, 3),
)
"""Their weights."""


def small_talk(rng: random.Random, split: Split) -> Example:
    """Small talk of any kind."""
    part = rng.choices([part for part, _ in PARTS], [weight for _, weight in PARTS])[0]
    return part(rng, split)


KINDS: dict[str, Generator] = {"small_talk": small_talk}
