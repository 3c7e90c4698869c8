"""Almost valid documents: valid JSON documents with a few fields replaced, removed or repeated."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**63, 2**70, 1e308, "", "../x", "x" * 300, "\x1b[2J", "é\u202e", "a" * 64, [], {}, [[]]]
)
ANY = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """Up to three changes anywhere in it; sometimes none."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        spots = list(_spots(changed))
        if not spots:
            return changed
        inside, key = spots[draw(st.integers(0, len(spots) - 1))]
        deed = draw(st.sampled_from(["replace", "remove", "repeat"]))
        if deed == "replace":
            inside[key] = copy.deepcopy(draw(ANY))
        elif deed == "remove":
            del inside[key]
        elif isinstance(inside, list):
            inside.extend([copy.deepcopy(inside[key])] * draw(st.integers(1, 40)))
        else:
            inside[draw(st.text(max_size=6))] = copy.deepcopy(inside[key])
    return changed


def _spots(value: Any) -> Any:
    """Every (container, key) in the document."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _spots(value[key])
