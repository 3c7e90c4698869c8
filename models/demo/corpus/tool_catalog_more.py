"""Tools for travel and knowledge, and how people ask for them: restaurants, routes, trains, words, and the news."""

from __future__ import annotations

from . import tool_fillers as fill
from .data import read
from .name_lists import CITIES
from .tool_concept import Concept, Param

_TEXTS = read(__name__)

_WORDS = fill.one_of(
    *"""brave gloomy harvest lantern humble voyage ancient fragile whisper orchard puzzle rumor shelter timber vivid
wander zebra canyon meadow anchor glacier feather marble pebble harbor cradle thunder velvet honest clever""".split()
)
_KNOWN_TOPICS = fill.one_of(
    *"sports music science football chess tennis space health money schools animals art trains robots food".split(),
    *CITIES[:40],
    *("the weather", "the election", "computer games", "the economy", "electric cars", "old films"),
)
_TOPICS = fill.or_made_up(_KNOWN_TOPICS, 0.4, lower=False)
_MEANING = fill.text(
    "a kind of [small|large|old|round|soft] [animal|tool|plant|house|boat|bag|stone]|"
    "[very|not|a little] [happy|old|strong|quiet|bright|sad|quick]|to [walk|talk|work|sing] [slowly|loudly|alone]"
)

WAYS = (
    Concept(
        key="table",
        texts=_TEXTS.table("table"),
        params=(
            Param("restaurant place name", fill.restaurant, "the restaurant|where"),
            Param("people guests persons seats", fill.number(2, 15), "how many people", type="integer"),
            Param("time at when hour", fill.clock, "the time|when"),
        ),
    ),
    Concept(
        key="directions",
        texts=_TEXTS.table("directions"),
        params=(
            Param("from origin start start_point", fill.city, "where to start|the start", optional=True),
            Param("to destination end goal", fill.city, "where to go|the goal"),
        ),
        result={"distance km distance_km": fill.number(2, 900), "minutes duration time": fill.number(5, 600)},
    ),
    Concept(
        key="trains",
        texts=_TEXTS.table("trains"),
        params=(
            Param("from origin departure start", fill.city, "where it leaves|the first city"),
            Param("to destination arrival end", fill.city, "where it goes|the last city"),
        ),
        result={"time departure leaves": fill.clock, "platform track": fill.number(1, 24)},
    ),
    Concept(
        key="define",
        texts=_TEXTS.table("define"),
        params=(Param("word term name", fill.or_made_up(_WORDS, 0.5), "the word|word to define"),),
        result={"definition meaning text": _MEANING},
    ),
    Concept(
        key="news",
        texts=_TEXTS.table("news"),
        params=(
            Param(
                "topic subject about category",
                _TOPICS,
                "the topic|what about",
                optional=True,
            ),
        ),
        result={"headline title top news": fill.text(fill.HEADLINES)},
    ),
)
