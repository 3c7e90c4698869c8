"""All tools, among them those for numbers and money, and how people ask for them."""

from __future__ import annotations

from . import tool_fillers as fill
from .data import read
from .tool_catalog_home import HOME
from .tool_catalog_more import WAYS
from .tool_catalog_texts import TEXTS
from .tool_concept import Concept, Param

_TEXTS = read(__name__)

_OPERATIONS = {
    "add": ("plus", "+"),
    "subtract": ("minus", "-"),
    "multiply": ("times", "*", "multiplied by"),
    "divide": ("divided by", "/"),
}
_MONEY = fill.one_of(*"USD EUR GBP JPY CHF CAD AUD INR CNY SEK NOK PLN BRL MXN dollars euros pounds yen francs".split())


def _value(expression: str) -> float:
    """The value of an expression that we generated."""
    value: float = round(eval(expression, {"__builtins__": {}}), 2)
    return int(value) if value == int(value) else value


_NUMBERS = (
    Concept(
        key="calculator",
        texts=_TEXTS.table("calculator"),
        params=(Param("expression formula input query", fill.expression, "what to work out|the expression"),),
        result={"result value answer": fill.price},
        derive=lambda given: {"result": _value(str(given["expression"]))},
    ),
    Concept(
        key="arithmetic",
        texts=_TEXTS.table("arithmetic"),
        params=(
            Param("a x first left", fill.amount(1, 999), "first number", type="number"),
            Param("b y second right", fill.amount(1, 999), "second number", type="number"),
            Param(
                "operation op operator",
                fill.one_of(*_OPERATIONS),
                "what to do|the operation",
                enum=tuple(_OPERATIONS),
                spoken=_OPERATIONS,
            ),
        ),
        result={"result value answer": fill.price},
        derive=lambda given: {"result": _value(f"{given['a']} {_OPERATIONS[given['operation']][1]} {given['b']}")},
    ),
    Concept(
        key="currency",
        texts=_TEXTS.table("currency"),
        params=(
            Param("amount value sum", fill.amount(1, 2000), "how much|the amount", type="number"),
            Param("from from_currency source", _MONEY, "currency to convert from|the first currency"),
            Param("to to_currency target", _MONEY, "currency to convert to|the other currency"),
        ),
        result={"result value converted": fill.price},
    ),
    Concept(
        key="units",
        texts=_TEXTS.table("units"),
        params=(
            Param("value amount number", fill.amount(1, 500), "the value|how much", type="number"),
            Param("from from_unit source", fill.one_of("km"), "unit to convert from|the first unit"),
            Param("to to_unit target", fill.one_of("miles"), "unit to convert to|the other unit"),
        ),
        together=fill.units,
        result={"result value converted": fill.price},
        derive=lambda given: {"result": fill.converted(given)},
    ),
    Concept(
        key="stock",
        texts=_TEXTS.table("stock"),
        params=(Param("symbol ticker stock name", fill.symbol, "the symbol|stock symbol"),),
        result={"price value last": fill.price},
    ),
)

CONCEPTS = (*HOME, *TEXTS, *_NUMBERS, *WAYS)
"""Everything that a tool of the corpus can do."""
