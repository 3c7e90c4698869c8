"""Requests for JSON, with answers that are only JSON."""

from __future__ import annotations

import random
from typing import Any

from .grammar import Example, Generator, Split, assistant, is_json, mentions, say, system, user
from .json_copying import Want, conversion, example, extraction, nesting, table
from .json_data_prompts import EXTRACTING, JUDGING, ONLY_JSON, ONLY_JSON_FREE
from .json_inventing import invention
from .json_prompts import ASK, ASK_KEY, CATEGORY, LIST, LIST_IN_OBJECT, SENTIMENT, SUM
from .json_records import asked, fact, joined, same, some, written
from .json_tables import (
    BAD_DAYS,
    FALSE_QUESTIONS,
    GOOD_DAYS,
    GREETINGS,
    LIKED,
    LISTS,
    NEGATIVE,
    OPINIONS,
    POSITIVE,
    SMALL_QUESTIONS,
    TRUE_QUESTIONS,
    WORDS_IN,
)
from .name_lists import made_up, with_article

Task = tuple[str, str, Any]
"""A question, the default key of its answer, and the answer."""

NUMBER_WORDS = "zero one two three four five six seven".split()


def listing(rng: random.Random, split: Split) -> Example:
    """A number of words of one sort, or a range of numbers, as an array."""
    if rng.random() < 0.25:
        low, count = rng.randint(0, rng.choice((5, 20, 93))), rng.randint(3, 7)
        answer: list[Any] = list(range(low, low + count))
        ends = f"{low} to {low + count - 1}"
        items = say(rng, f"[the numbers|numbers|the numbers|all numbers|all the numbers] [from |]{ends}")
        return listed(rng, split, items, "numbers", answer, lambda found: same(found, answer))
    what = rng.choice(list(LISTS))
    right = LISTS[what]
    count = rng.randint(2, min(7, len(right)))
    answer = list(right[:count])
    many = NUMBER_WORDS[count] if rng.random() < 0.6 else str(count)
    items = say(rng, f"{many} [|||different ]{what}")
    if what in ("weekdays", "months", "days of the week") and rng.random() < 0.4:
        items = f"the first {many} {what}"
    return listed(rng, split, items, what.split()[0], answer, lambda found: is_list(found, count, right))


def listed(rng: random.Random, split: Split, items: str, what: str, answer: list[Any], want: Want) -> Example:
    """The array by itself or under a key."""
    if rng.random() < 0.8:
        return example(LIST.say(rng, split, items=items), answer, want)
    key = rng.choice((what, what, "items", "list", "answer", "values", "result"))
    question = LIST_IN_OBJECT.say(rng, split, items=items, key=key)
    return example(question, {key: answer}, lambda found: list(found) == [key] and want(found[key]))


def is_list(found: Any, count: int, right: tuple[str, ...]) -> bool:
    """The right number of different words of the right sort."""
    words = [word.casefold() for word in found]
    known = [word.casefold() for word in right]
    return isinstance(found, list) and len(set(words)) == count == len(words) and all(word in known for word in words)


def question(rng: random.Random, split: Split) -> Example:
    """A question with a single value as its answer."""
    ask = rng.choice((yes_or_no, small_sum, sentiment, category))
    task, key, answer = ask(rng, split)
    if rng.random() < 0.4:
        return example(ASK.say(rng, split, task=task), {key: answer}, lambda found: one_value(found, answer))
    if rng.random() < 0.3:
        key = rng.choice(("answer", "result", "value", "reply", "output", "label"))
    return example(ASK_KEY.say(rng, split, task=task, key=key), {key: answer})


def one_value(found: Any, answer: Any) -> bool:
    """Only the answer, under any key."""
    return same(list(found.values()), [answer])


def yes_or_no(rng: random.Random, _: Split) -> Task:
    """A question answered by true or false."""
    asked_for, right = rng.choice((is_bigger, is_of_kind, is_known))(rng)
    return asked_for, "answer", right


def is_bigger(rng: random.Random) -> tuple[str, bool]:
    """A question about two numbers."""
    one, other = rng.sample(range(rng.choice((11, 100))), 2)
    return say(rng, f"Is {one} [bigger|more|greater] than {other}?"), one > other


def is_of_kind(rng: random.Random) -> tuple[str, bool]:
    """A question about whether a word is of some sort."""
    kind, right = rng.choice(list(WORDS_IN)), rng.random() < 0.5
    others = [name for name in WORDS_IN if {name, kind} not in ({kind}, {"animal", "food"})]
    word, guess = rng.choice(WORDS_IN[kind]), kind if right else rng.choice(others)
    plain = kind in ("food", "color") or rng.random() < 0.3
    return f"Is {word if plain else with_article(word)} {with_article(guess)}?", right


def is_known(rng: random.Random) -> tuple[str, bool]:
    """A question about the world."""
    right = rng.random() < 0.5
    return rng.choice(TRUE_QUESTIONS if right else FALSE_QUESTIONS), right


def small_sum(rng: random.Random, split: Split) -> Task:
    """A sum or a difference of numbers up to ten."""
    one, other = rng.randint(0, 10), rng.randint(0, 10)
    if rng.random() < 0.3:
        one, other = max(one, other), min(one, other)
        said = say(rng, f"{one} [-|-|minus] {other}")
        return SUM.say(rng, either(rng, split), sum=said), "result", one - other
    said = say(rng, f"{one} [+|+|plus] {other}")
    return SUM.say(rng, either(rng, split), sum=said), "result", one + other


def sentiment(rng: random.Random, split: Split) -> Task:
    """A question about the mood of a sentence."""
    mood = rng.choice(("positive", "negative"))
    return SENTIMENT.say(rng, either(rng, split), text=opinion(rng, mood)), "sentiment", mood


def opinion(rng: random.Random, mood: str) -> str:
    """A text written in this mood."""
    it, template = rng.choice(LIKED), rng.choice(OPINIONS[mood])
    of_days = "today" in template or " day" in template
    good, bad = rng.choice(GOOD_DAYS if of_days else POSITIVE), rng.choice(BAD_DAYS if of_days else NEGATIVE)
    if template.startswith("What "):
        good, bad = with_article(good), with_article(bad)
    return say(rng, template, it=it, It=it[0].upper() + it[1:], good=good, bad=bad)


def category(rng: random.Random, split: Split) -> Task:
    """A question about the sort of a word."""
    kind = rng.choice(list(WORDS_IN))
    others = rng.sample([name for name in WORDS_IN if name != kind], rng.choice((1, 2, 4, 4)))
    choices = joined(rng.sample([kind, *others], len(others) + 1), " or ")
    return CATEGORY.say(rng, either(rng, split), word=rng.choice(WORDS_IN[kind]), choices=choices), "category", kind


def either(rng: random.Random, split: Split) -> Split:
    """An evaluation uses new phrasings, for new or known questions."""
    return split if rng.random() < 0.5 else "train"


def ruled(rng: random.Random, split: Split) -> Example:
    """A system message that wants only JSON, and small talk or small questions."""
    key, rule = rng.choice(("answer", "answer", "reply", "response", "text", "message", "output", "result")), ONLY_JSON
    if rng.random() < 0.15:
        key = made_up(rng).lower()
    if rng.random() < 0.2:
        key, rule = "answer", ONLY_JSON_FREE
    messages, answer, greeted = [system(rule.say(rng, split, key=key))], None, False
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        said, answer, greeted = small_turn(rng)
        messages += [user(said), assistant(written({key: answer}))]
    return Example(
        "json_system", messages, is_json(lambda found: list(found) == [key] and fits(found[key], answer, greeted))
    )


def small_turn(rng: random.Random) -> tuple[str, Any, bool]:
    """A user's text, the answer, and whether it is only politeness."""
    chance = rng.random()
    if chance < 0.35:
        said, answer = rng.choice(GREETINGS)
        return say(rng, said), answer, True
    if chance < 0.7:
        said, answer = rng.choice(SMALL_QUESTIONS)
        return say(rng, said), answer, False
    said, _, value = (small_sum if chance < 0.85 else yes_or_no)(rng, "train")
    return said, value, False


def fits(found: Any, answer: Any, greeted: bool) -> bool:
    """Any text for a greeting; the requested word, possibly in a sentence; or the exact value."""
    if greeted:
        return isinstance(found, str) and bool(found.strip())
    return mentions(answer)(found) if isinstance(answer, str) else same(found, answer)


def ruled_extraction(rng: random.Random, split: Split) -> Example:
    """A system message that names keys, and user texts to extract them from."""
    text, told = fact(rng, split)
    answer = some(rng, told)
    rule = system(EXTRACTING.say(rng, split, **asked(rng, answer)))
    messages = [rule, user(text), assistant(written(answer))]
    return Example("json_system", messages, is_json(lambda found: same(found, answer)))


def ruled_sentiment(rng: random.Random, split: Split) -> Example:
    """A system message that asks for the mood of texts, and user texts."""
    key = rng.choice(("sentiment", "sentiment", "sentiment", "mood", "label", "answer"))
    messages, mood = [system(JUDGING.say(rng, split, key=key))], ""
    for _ in range(rng.choice((1, 1, 1, 2))):
        mood = rng.choice(("positive", "negative"))
        messages += [user(opinion(rng, mood)), assistant(written({key: mood}))]
    return Example("json_system", messages, is_json(lambda found: same(found, {key: mood})))


def any_json(rng: random.Random, split: Split) -> Example:
    """A request for JSON of any sort."""
    return rng.choices(list(PARTS.values()), PART_WEIGHTS)[0](rng, split)


def json_system(rng: random.Random, split: Split) -> Example:
    """A rule in the system message that applies to the whole conversation."""
    return rng.choices((ruled, ruled_extraction, ruled_sentiment), (6, 3, 1))[0](rng, split)


PARTS: dict[str, Generator] = {
    "extraction": extraction,
    "conversion": conversion,
    "table": table,
    "nesting": nesting,
    "listing": listing,
    "question": question,
    "invention": invention,
}
"""The sorts of requests within the kind "json", for separate evaluation."""

PART_WEIGHTS = (8, 3, 2, 2, 3, 4, 3)

KINDS: dict[str, Generator] = {"json": any_json, "json_system": json_system}
