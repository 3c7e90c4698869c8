"""Keyword arguments that a `TypedDict` declares once, for every function that takes them as `**given: Unpack[...]`.

Fills in defaults, refuses unknown names, and spells the keywords out for `help`. Knows no function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

K = TypeVar("K")
F = TypeVar("F", bound=Callable[..., object])


class Keywords(Generic[K]):
    """The keywords of a `TypedDict`.

    parts: the `TypedDict`s that it consists of and that `help` spells out, with their docstrings; none: itself. rest:
    another one, of many keywords, which `help` only names. defaults: of those in `parts`, if not None.
    """

    def __init__(
        self,
        kind: type[K],
        *parts: type,
        rest: type | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        self._known = kind.__annotations__
        self._parts = parts or (kind,)
        self._rest = rest
        self._spelled = {name: _source(hint) for part in self._parts for name, hint in part.__annotations__.items()}
        self._defaults: dict[str, object] = {**dict.fromkeys(self._spelled), **(defaults or {})}

    def filled(self, function: str, given: K) -> K:
        """With the defaults of those that were left out. Raises `TypeError` for an unknown one, as a call would."""
        names = cast("Mapping[str, object]", given)
        for name in names:
            if name not in self._known:
                raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cast("K", {**self._defaults, **names})

    def spell_out(self, function: F) -> F:
        """A decorator: `help` and `inspect.signature` show each keyword, and `help` explains it."""
        signature = inspect.signature(function)
        *own, gathered = signature.parameters.values()
        spelled = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=self._defaults[name], annotation=hint)
            for name, hint in self._spelled.items()
        ]
        rest = [] if self._rest is None else [gathered.replace(annotation=f"Unpack[{self._rest.__name__}]")]
        documented: Any = function
        documented.__signature__ = signature.replace(parameters=[*own, *spelled, *rest])
        texts = [inspect.cleandoc(each.__doc__) for each in (function, *self._parts) if each.__doc__]
        documented.__doc__ = "\n\n".join(texts)
        return function


def _source(hint: Any) -> str:
    """The annotation as it was written."""
    return str(getattr(hint, "__forward_arg__", hint))
