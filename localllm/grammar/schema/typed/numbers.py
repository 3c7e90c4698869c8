"""Rewrites bounds, multiples and constants so that llguidance enforces them exactly.

llguidance reads every number as a double and writes integers of at most 63 bits. So bounds are moved inward to the next
value that it can represent, and a constant that it would write as another number is rejected.
"""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

from localllm.grammar.refusals import impossible, refused
from localllm.grammar.schema.typed.formats import INTEGERS

MAX_INTEGER = 2**63 - 1024
"""The largest integer below 2^63 that is also a double."""

MAX_FLOAT_BOUND = 1e15
"""Beyond it a double loses decimal places."""

MAX_OPEN_BOUND = 10**17
"""With a bound beyond this, the other bound must be given as well."""

MAX_DECIMALS = 20
"""Maximum number of decimal places of a bound: the regular expression grows with them."""

BESIDE_DECIMALS = 15
"""Decimal places of the nearest number to a small integer that a double represents."""

MAX_MULTIPLE = 50_000
"""Limit for `multipleOf`, in units of its last decimal place: the automaton has a state for each remainder."""

_LOWER = ("minimum", "exclusiveMinimum")
_UPPER = ("maximum", "exclusiveMaximum")
KEYWORDS = (*_LOWER, *_UPPER, "multipleOf")


def is_number(value: Any) -> bool:
    """Whether the value is a number in JSON, where true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def constant(value: int | float, path: str) -> int | float:
    """The value, if llguidance writes it so that it reads back as the same number. Raises `InvalidParameter`."""
    number = float(value) if abs(value) < 2**1023 else math.inf
    if math.isinf(number) or json.loads(format(Decimal(repr(number)), "f")) != value:
        raise refused(path, f"has the number {str(value)[:40]}, which a double cannot represent; write it as a string")
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def bounds(schema: dict[str, Any], path: str, *, integers_only: bool) -> dict[str, Any]:
    """Its bounds as `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`. Raises `InvalidParameter`."""
    found: dict[str, Any] = {}
    for inclusive, exclusive in (_LOWER, _UPPER):
        for keyword in (inclusive, exclusive):
            value = schema.get(keyword)
            if value is None or (isinstance(value, bool) and keyword == exclusive):
                continue
            if not is_number(value):
                raise refused(f"{path}.{keyword}", "must be a number")
            found[keyword] = value
        if schema.get(exclusive) is True:  # Draft 4: applies to the other bound
            if inclusive not in found:
                raise refused(f"{path}.{exclusive}", f"needs {inclusive} beside it, or has to be a number")
            found[exclusive] = found.pop(inclusive)
    if integers_only:
        return _integers(found, path)
    for keyword, value in found.items():
        found[keyword] = _within(value, -1 if keyword in _LOWER else 1)
        _check_float(found[keyword], f"{path}.{keyword}")
    if "minimum" in found and "exclusiveMinimum" in found:
        del found["minimum" if found["exclusiveMinimum"] >= found["minimum"] else "exclusiveMinimum"]
    if "maximum" in found and "exclusiveMaximum" in found:
        del found["maximum" if found["exclusiveMaximum"] <= found["maximum"] else "exclusiveMaximum"]
    _nudge(found)
    return found


def _nudge(found: dict[str, Any]) -> None:
    """Replace an exclusive integer bound by a tighter inclusive one if llguidance would accept the bound itself.

    llguidance does so if both bounds have the same integer part: `exclusiveMinimum: 0, maximum: 0.5` accepts `0`.
    """
    lower = found.get("minimum", found.get("exclusiveMinimum", -math.inf))
    upper = found.get("maximum", found.get("exclusiveMaximum", math.inf))
    if not (math.isfinite(lower) and math.isfinite(upper)) or math.trunc(lower) != math.trunc(upper):
        return
    if lower >= 0 and "exclusiveMinimum" in found and lower == math.trunc(lower):
        found["minimum"] = _beside(found.pop("exclusiveMinimum"), 1)
    elif upper <= 0 and "exclusiveMaximum" in found and upper == math.trunc(upper):
        found["maximum"] = _beside(found.pop("exclusiveMaximum"), -1)


def _beside(value: int | float, sign: int) -> float:
    places = BESIDE_DECIMALS - (len(str(abs(int(value)))) if int(value) else 0)
    return float(Decimal(int(value)) + sign * Decimal(1).scaleb(-places))


def _integers(found: dict[str, Any], path: str) -> dict[str, Any]:
    """The bounds as inclusive integers within llguidance's range."""
    least, most = -MAX_INTEGER, MAX_INTEGER
    for keyword in _LOWER:
        if keyword in found:
            value = _finite(found[keyword], f"{path}.{keyword}")
            least = max(least, math.ceil(value) + (keyword != "minimum" and math.ceil(value) == value))
    for keyword in _UPPER:
        if keyword in found:
            value = _finite(found[keyword], f"{path}.{keyword}")
            most = min(most, math.floor(value) - (keyword != "maximum" and math.floor(value) == value))
    if not found:
        return {}
    lower, upper = next((key for key in _LOWER if key in found), None), next((k for k in _UPPER if k in found), None)
    if least > most:
        named = lower or upper
        raise impossible(f"{path}.{named}", "allows no integer, together with the other bound")
    bounded: dict[str, Any] = {}
    if lower is not None or most < -MAX_OPEN_BOUND:
        bounded["minimum"] = _inward(least, 1)
    if upper is not None or least > MAX_OPEN_BOUND:
        bounded["maximum"] = _inward(most, -1)
    return bounded


def _finite(value: int | float, path: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise refused(path, "is not a finite number")
    return value


def _inward(value: int, step: int) -> int:
    """The value, or the next integer inward that a double represents."""
    number = int(float(value))
    if (step > 0 and number < value) or (step < 0 and number > value):
        number = int(math.nextafter(float(value), math.inf * step))
    return number


def _within(value: int | float, sign: int) -> int | float:
    """The bound, or the last one inward of it that `_check_float` takes: fewer numbers are drawn than may be."""
    return int(sign * MAX_FLOAT_BOUND) if sign * value > MAX_FLOAT_BOUND else value


def _check_float(value: int | float, path: str) -> None:
    if not abs(value) <= MAX_FLOAT_BOUND:
        raise refused(path, f"goes beyond {MAX_FLOAT_BOUND:.0e}, where doubles lose decimal places; leave it out")
    if _decimals(value) > MAX_DECIMALS:
        raise refused(path, f"has more than {MAX_DECIMALS} decimal places; round it")


def _decimals(value: int | float) -> int:
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def multiple(value: Any, path: str) -> int | float:
    """A `multipleOf` that llguidance can enforce. Raises `InvalidParameter`."""
    if not is_number(value) or not value > 0:
        raise refused(path, "must be a number above 0")
    decimals = _decimals(value)
    if decimals > 9 or Decimal(repr(value)).scaleb(decimals) > MAX_MULTIPLE:
        raise refused(path, f"is not supported: at most {MAX_MULTIPLE}, counted in its last decimal place")
    return value if not isinstance(value, float) or not value.is_integer() else int(value)


def rewritten(named: dict[str, Any], path: str, *, integers_only: bool) -> dict[str, Any]:
    """Bounds and `multipleOf`, including the bounds of OpenAPI's integer formats. Raises `InvalidParameter`."""
    named = {name: value for name, value in named.items() if name in KEYWORDS or name == "format"}
    if integers_only and isinstance(named.get("format"), str) and named["format"] in INTEGERS:
        least, most = INTEGERS[named["format"]]
        if is_number(named.get("minimum", least)) and is_number(named.get("maximum", most)):
            named |= {
                "minimum": max(least, named.get("minimum", least)),
                "maximum": min(most, named.get("maximum", most)),
            }
    found = bounds(named, path, integers_only=integers_only)
    if "multipleOf" in named:
        step = multiple(named["multipleOf"], f"{path}.multipleOf")
        found["multipleOf"] = Fraction(repr(step)).numerator if integers_only else step
    _check_range(found, named, path)
    return found if integers_only or "multipleOf" not in found else _at_multiples(found)


def _at_multiples(found: dict[str, Any]) -> dict[str, Any]:
    """Move the bounds to multiples: with other bounds llguidance loses values, such as -0.5 above -0.501."""
    step = Decimal(repr(found["multipleOf"]))
    moved = {"multipleOf": found["multipleOf"]}
    for (inclusive, exclusive), rounding, inward in ((_LOWER, ROUND_CEILING, step), (_UPPER, ROUND_FLOOR, -step)):
        bound = found.get(inclusive, found.get(exclusive))
        if bound is not None:
            value = (Decimal(repr(bound)) / step).to_integral_value(rounding) * step
            value += inward if value == Decimal(repr(bound)) and exclusive in found else 0
            moved[inclusive] = int(value) if value == value.to_integral_value() else float(value)
    return moved


def _check_range(found: dict[str, Any], named: dict[str, Any], path: str) -> None:
    lower = max((found[key] for key in _LOWER if key in found), default=-math.inf)
    upper = min((found[key] for key in _UPPER if key in found), default=math.inf)
    is_open = found.get("exclusiveMinimum") == lower or found.get("exclusiveMaximum") == upper
    if lower > upper or (lower == upper and is_open):
        raise impossible(f"{path}.{next(key for key in _LOWER if key in named)}", "and the upper bound leave no number")
    if "multipleOf" in found and math.isfinite(lower) and math.isfinite(upper):
        step, first = Decimal(repr(found["multipleOf"])), Decimal(repr(lower))
        least = (first / step).to_integral_value(ROUND_CEILING) * step
        least += step if least == first and found.get("exclusiveMinimum") == lower else 0
        last = Decimal(repr(upper))
        if least > last or (least == last and found.get("exclusiveMaximum") == upper):
            raise impossible(f"{path}.multipleOf", "has no multiple within the bounds")
