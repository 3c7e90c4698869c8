"""Questions and requests beyond a tiny model's knowledge, and their topics."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

QUESTIONS = _DATA.phrasings("questions")

COUNTRIES = _DATA.texts("countries")
FIRST_NAMES = _DATA.texts("first_names")
KNOWN_PEOPLE = _DATA.texts("known_people")
THINGS = _DATA.texts("things")
ONES = _DATA.texts("ones")
DISEASES = _DATA.texts("diseases")
DEEDS = _DATA.texts("deeds")
DISHES = _DATA.texts("dishes")
WORDS = _DATA.texts("words")
LANGUAGES = _DATA.texts("languages")
CODES = "Python;Java;JavaScript;Rust;C;Go;SQL;HTML;Ruby;PHP;Swift;Kotlin".split(";")
PLANETS = "Mars;Venus;Jupiter;Saturn;Mercury;Neptune;Uranus;Pluto".split(";")
TITLE_STARTS = _DATA.texts("title_starts")
TITLE_ENDS = "King;River;House;Garden;Star;Ship;Road;Island;Summer;City;Dream;Door;Queen;Train;Wolf;Mountain".split(";")
