"""Tools of everyday life, and how people ask for them: weather, clocks, the house, and what to buy."""

from __future__ import annotations

from . import tool_fillers as fill
from .data import read
from .tool_concept import Concept, Param

_TEXTS = read(__name__)

_ROOMS = fill.one_of(
    *"kitchen bedroom bathroom hall garage office garden cellar".split(),
    *("living room", "dining room", "guest room", "entrance", "play room", "attic", "hallway", "library"),
)
_ITEMS = fill.one_of(
    *"""milk bread eggs butter cheese apples bananas tomatoes potatoes onions carrots rice pasta coffee tea sugar salt
flour oil soap paper pens batteries candles flowers cookies grapes lemons beans nuts honey yogurt water""".split(),
    *("olive oil", "orange juice", "green tea", "dog food", "white bread", "red wine", "ice cream", "paper towels"),
)

HOME = (
    Concept(
        key="weather",
        texts=_TEXTS.table("weather"),
        params=(
            Param("city location place town", fill.city, "the city|name of the city|where"),
            Param(
                "unit units scale",
                fill.one_of("celsius", "fahrenheit"),
                "unit of the temperature",
                enum=("celsius", "fahrenheit"),
                optional=True,
            ),
            Param("day date when", fill.one_of("today", "tomorrow", *fill.DAYS), "the day|which day", optional=True),
        ),
        result={
            "temperature temp degrees": fill.number(-15, 40),
            "condition sky weather": fill.one_of(*"sunny rainy cloudy windy foggy clear snowy stormy dry".split()),
        },
    ),
    Concept(
        key="time",
        texts=_TEXTS.table("time"),
        params=(Param("city location place town", fill.city, "the city|name of the city|where"),),
        result={"time local_time clock": fill.clock},
    ),
    Concept(
        key="timer",
        texts=_TEXTS.table("timer"),
        params=(Param("minutes duration mins length", fill.number(2, 120), "how many minutes", type="integer"),),
    ),
    Concept(
        key="alarm",
        texts=_TEXTS.table("alarm"),
        params=(Param("time at when hour", fill.clock, "the time|when to ring|time of day"),),
    ),
    Concept(
        key="reminder",
        texts=_TEXTS.table("reminder"),
        params=(
            Param("text task what title", fill.text(fill.TASKS), "the task|what to remind of"),
            Param("time at when", fill.clock, "the time|when to remind", optional=True),
        ),
        carries=False,
    ),
    Concept(
        key="light",
        texts=_TEXTS.table("light"),
        params=(
            Param("room place location", fill.or_made_up(_ROOMS, 0.2), "the room|which room"),
            Param("state power action", fill.one_of("on", "off"), "on or off", enum=("on", "off")),
        ),
    ),
    Concept(
        key="thermostat",
        texts=_TEXTS.table("thermostat"),
        params=(Param("temperature degrees temp target", fill.amount(14, 28), "degrees|how warm", type="number"),),
    ),
    Concept(
        key="shopping",
        texts=_TEXTS.table("shopping"),
        params=(
            Param("item product name thing", fill.or_made_up(_ITEMS, 0.3), "what to buy|the item"),
            Param("quantity count number amount", fill.number(2, 24), "how many", type="integer", optional=True),
        ),
        carries=False,
    ),
    Concept(
        key="dice",
        texts=_TEXTS.table("dice"),
        params=(Param("sides faces size", fill.number(6, 100), "number of sides", type="integer", optional=True),),
        result={"result number value": fill.number(1, 6)},
    ),
)
