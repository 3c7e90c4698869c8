"""Requests to turn given data into JSON: sentences, lines, lists, facts of several things, and nested objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .grammar import Example, Split, assistant, is_json, say, user
from .json_data_prompts import ARRAY, CONVERT, FREE_KEYS, NESTED, TABLE, TABLE_KEYS
from .json_prompts import EXTRACT, TEMPLATE
from .json_records import Record, asked, distinct_people, fact, joined, number, record, same, shape, some, written
from .json_tables import KEYS_OF, LISTS, ROWS, SHAPES
from .name_lists import made_up

Want = Callable[[Any], bool]


def example(question: str, answer: Any, want: Want | None = None) -> Example:
    """A request and its answer; without `want`, only that exact answer is right."""
    messages = [user(question), assistant(written(answer))]
    return Example("json", messages, is_json(want or (lambda found: same(found, answer))))


def extraction(rng: random.Random, split: Split) -> Example:
    """Extract the keys that a request names, or sometimes all of them, from a sentence."""
    if rng.random() < 0.12:
        text, told = fact(rng, split, usual_keys=True)
        return example(FREE_KEYS.say(rng, split, text=text), told, lambda found: same_facts(found, told))
    text, told = fact(rng, split)
    answer = some(rng, told)
    phrasings = EXTRACT if rng.random() < 0.7 else TEMPLATE
    return example(phrasings.say(rng, split, text=text, **asked(rng, answer)), answer)


def same_facts(found: Any, told: Record) -> bool:
    """The same values in any order and under any keys, since the request named none."""
    return len(found) == len(told) and all(any(same(one, value) for one in found.values()) for value in told.values())


def conversion(rng: random.Random, split: Split) -> Example:
    """Turn lines of keys and values, or a comma-separated list, into JSON."""
    if rng.random() < 0.4:
        words = comma_list(rng)
        said = joined(words, rng.choice((", ", ", ", " and "))) if isinstance(words[0], str) else str(words)[1:-1]
        return example(ARRAY.say(rng, split, data=said), words)
    values = record(rng)
    keys = rng.sample([*KEYS_OF, "street", "active"], rng.randint(2, 5))
    answer: Record = {}
    for key in keys:
        called = KEYS_OF.get(key, (key,))[0]
        answer[called] = values["yes"] if key == "active" else values[key]
    if rng.random() < 0.3:
        answer[made_up(rng).lower()] = rng.choice((number(rng), made_up(rng)))
    return example(CONVERT.say(rng, split, data=lines(rng, answer)), answer)


def comma_list(rng: random.Random) -> list[Any]:
    """Words of one sort, or numbers."""
    count, sort = rng.randint(2, 7), rng.randrange(4)
    if sort == 0:
        return [number(rng) for _ in range(count)]
    if sort == 1:
        return list(distinct_people(rng, count))
    if sort == 2:
        return [made_up(rng).lower() for _ in range(count)]
    return rng.sample(LISTS[rng.choice(list(LISTS))], min(count, 5))


def lines(rng: random.Random, answer: Record) -> str:
    """The facts as people write them down."""
    between, mark, after = rng.choice((": ", ": ", ": ", " = ", "=")), rng.choice(("", "", "", "- ")), "\n"
    if not mark and rng.random() < 0.3:
        after = rng.choice((", ", "; "))
    return after.join(f"{mark}{key}{between}{value_said(value)}" for key, value in answer.items())


def value_said(value: Any) -> str:
    """A value as written outside JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(rng: random.Random, split: Split) -> Example:
    """Turn facts about two to four things into an array of objects."""
    fields, ways = rng.choice(ROWS)
    way, separator = rng.choice(ways), rng.choice((", ", ", ", " and ", ". ", "; ", "\n"))
    rows: list[Record] = []
    said: list[str] = []
    for name in distinct_people(rng, rng.choice((2, 2, 3, 3, 4))):
        values = {**record(rng), "name": name}
        if any(values[fields[0]] == row[fields[0]] for row in rows):
            continue
        rows.append({field: values[field] for field in fields})
        said.append(say(rng, way, **values))
    data = joined(said, " and ") if separator == " and " else separator.join(said)
    named = rng.random() < 0.5
    keys = [rng.choice(KEYS_OF[field]) if named else KEYS_OF[field][0] for field in fields]
    answer = [dict(zip(keys, row.values(), strict=True)) for row in rows]
    if separator in (", ", " and ", ". ", "; "):
        data += "." if separator == ". " else rng.choice(("", "."))
    if not named:
        return example(TABLE.say(rng, split, data=data), answer, lambda found: same_rows(found, answer))
    return example(
        TABLE_KEYS.say(rng, split, data=data, **{**asked(rng, answer[0]), "shape": shape(rng, answer)}), answer
    )


def same_rows(found: Any, wanted: list[Record]) -> bool:
    """The same values row by row, under any keys, since the request named none."""
    return len(found) == len(wanted) and all(
        same(list(row.values()), list(one.values())) for row, one in zip(found, wanted, strict=True)
    )


def nesting(rng: random.Random, split: Split) -> Example:
    """Objects and arrays inside an object."""
    places, sentences = rng.choice(SHAPES)
    sentence, values = rng.choice(sentences), record(rng)
    text = say(rng, sentence, **values)
    answer = filled(places, values)
    words = joined([key if not isinstance(value, dict) else holder(key, value) for key, value in answer.items()])
    return example(NESTED.say(rng, split, text=text, shape=shape(rng, answer), words=words), answer)


def filled(places: Any, values: Record) -> Any:
    """A nested answer with the values filled in."""
    if isinstance(places, dict):
        return {key: filled(place, values) for key, place in places.items()}
    return values[places]


def holder(key: str, inside: Record) -> str:
    """A nested object, described in words."""
    return f"{key} (with {joined(list(inside))})"
