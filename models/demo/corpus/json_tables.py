"""Words, sentences, and small facts that the JSON examples are made of."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

JOBS = _DATA.texts("jobs")

HOBBIES = _DATA.texts("hobbies")

PETS = "dog cat rabbit hamster parrot fish turtle horse mouse duck goat pony snake frog owl hen".split()

ITEMS = _DATA.texts("items")

THINGS = _DATA.texts("things")

COLORS = "red blue green yellow orange purple pink black white brown gray".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

EVENTS = _DATA.texts("events")

BOOK_FIRST = _DATA.texts("book_first")
BOOK_LAST = _DATA.texts("book_last")

MESSAGES = _DATA.texts("messages")

KEYS_OF: dict[str, tuple[str, ...]] = _DATA.mapping("keys_of")
"""Names of each fact in requests; answers use the first one if the request names no keys."""

PEOPLE_TRAIN: tuple[str, ...] = _DATA.texts("people_train")
PEOPLE_HELD_OUT: tuple[str, ...] = _DATA.texts("people_held_out")

OTHERS_TRAIN: tuple[str, ...] = _DATA.texts("others_train")
OTHERS_HELD_OUT: tuple[str, ...] = _DATA.texts("others_held_out")

ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = _DATA.rows("rows")
"""Facts about one of several things, and ways to state them."""

SHAPES: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
    (
        {"user": {"name": "name", "email": "email"}, "active": "yes"},
        ("{name} has the email {email} and is {not_}active.", "The user {name} ({email}) is {not_}active."),
    ),
    (
        {"user": {"name": "name", "age": "age"}, "city": "city"},
        ("{name} is {age} and lives in {city}.", "{name}, {age}, lives in {city}."),
    ),
    (
        {"order": {"item": "item", "count": "count"}, "paid": "yes"},
        ("The order of {count} {item} is {not_}paid.", "{count} {item}, {not_}paid."),
    ),
    (
        {"customer": "name", "order": {"item": "item", "count": "count", "price": "price"}},
        ("{name} ordered {count} {item} for {price} dollars.", "{name} bought {count} {item} for ${price}."),
    ),
    (
        {"name": "name", "address": {"street": "street", "city": "city"}},
        ("{name} lives in {street} in {city}.", "The address of {name} is {street}, {city}."),
    ),
    (
        {"person": {"name": "name", "job": "job"}, "pets": "pets"},
        ("{name} is {a_job} and has {pets_said}.", "{name} works as {a_job}. The pets are {pets_said}."),
    ),
    ({"name": "name", "pets": "pets"}, ("{name} has {pets_said}.", "The pets of {name} are {pets_said}.")),
    ({"name": "name", "hobbies": "hobbies"}, ("{name} likes {hobbies_said}.", "{name} loves {hobbies_said}.")),
    (
        {"team": "color", "players": "people"},
        ("In the {color} team are {people_said}.", "The players of the {color} team are {people_said}."),
    ),
    (
        {"event": {"title": "event", "day": "day"}, "guests": "people"},
        ("The {event} is on {day} with {people_said}.", "{people_said} come to the {event} on {day}."),
    ),
)
"""Nested answers, by the content of each place, and ways to state them."""

LISTS: dict[str, tuple[str, ...]] = {
    "colors": tuple(COLORS),
    "animals": tuple("dog cat horse cow bird fish lion tiger bear rabbit sheep pig duck goat mouse".split()),
    "fruits": tuple("apple banana orange pear grape lemon peach cherry mango melon plum kiwi".split()),
    "weekdays": tuple(DAYS[:5]),
    "days of the week": tuple(DAYS),
    "months": tuple(MONTHS),
    "shapes": ("circle", "square", "triangle", "rectangle", "star", "oval", "diamond", "heart", "line"),
    "foods": tuple("bread cheese rice pasta soup pizza salad egg meat fish cake potato".split()),
    "drinks": tuple("water milk tea coffee juice soda cocoa lemonade wine beer".split()),
    "vegetables": tuple("carrot potato onion tomato cabbage bean pepper corn pea spinach".split()),
    "countries": tuple("France Italy Spain Germany Japan Brazil Canada India China Egypt Mexico Norway Peru".split()),
    "cities": tuple("Paris Rome Madrid Berlin Tokyo London Cairo Oslo Lima Athens".split()),
    "names": tuple("Anna Ben Clara David Emma Felix Greta Hugo".split()),
    "jobs": tuple("teacher doctor baker driver nurse farmer cook painter pilot".split()),
    "sports": tuple("football tennis swimming running basketball cycling skiing hockey".split()),
    "tools": tuple("hammer saw drill knife screwdriver axe shovel rake wrench".split()),
}
"""Answers begin at the first word, so that a small model can keep count; other words are equally right."""

WORDS_IN: dict[str, tuple[str, ...]] = _DATA.mapping("words_in")

TRUE_QUESTIONS = _DATA.texts("true_questions")
FALSE_QUESTIONS = _DATA.texts("false_questions")

LIKED = _DATA.texts("liked")
POSITIVE = "great wonderful amazing lovely perfect excellent fantastic beautiful good nice super brilliant".split()
NEGATIVE = "terrible awful bad horrible boring ugly sad disgusting poor annoying useless".split()
GOOD_DAYS = "great wonderful amazing good fantastic super".split()
BAD_DAYS = "terrible horrible bad sad awful".split()
OPINIONS: dict[str, tuple[str, ...]] = _DATA.mapping("opinions")

GREETINGS: tuple[tuple[str, str], ...] = _DATA.rows("greetings")
SMALL_QUESTIONS: tuple[tuple[str, str], ...] = _DATA.rows("small_questions")
