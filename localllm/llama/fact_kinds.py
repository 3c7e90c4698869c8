"""What is said of one fact of a llama.cpp build: its kind, where it is known, and what happens if it changes.

Plain data; the facts are in `facts`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["function", "table", "struct", "number", "text", "graph", "rule", "architecture", "format", "speed"]
Then = Literal["refused", "feature off", "wrong plan", "wrong result", "crash", "worse message", "slower"]
KINDS: dict[Kind, str] = {
    "function": "Functions that the bindings lack, called by hand-written signatures or mangled names",
    "table": "Tables of function pointers that are read or changed",
    "struct": "Layouts of structs, written by hand or trusted",
    "number": "Numbers of enums and limits that the bindings lack or that are needed where these are not loaded",
    "text": "Text of llama.cpp's log that is searched",
    "graph": "Names of nodes in llama.cpp's graphs",
    "rule": "Rules and formulas copied from its source",
    "architecture": "Lists of architectures",
    "format": "Formats and protocols",
    "speed": "What is fast in its kernels",
}
THENS: dict[Then, str] = {
    "refused": "an error that says why, before anything is computed",
    "feature off": "localllm works without it, and says so where a user asked for it",
    "wrong plan": "memory or speed is predicted wrongly: too few layers on a GPU, or a load that fails",
    "wrong result": "text, tokens or scores differ from llama.cpp's, or a setting means something else",
    "crash": "llama.cpp ends the worker's process; the request fails with the reason",
    "worse message": "an error keeps llama.cpp's own words instead of a remedy",
    "slower": "never wrong",
}


class Fact(NamedTuple):
    """One thing that is true of `upstream.COMMIT`."""

    kind: Kind
    what: str
    places: tuple[str, ...]
    """`module:name` of the definitions that know it."""
    source: str
    """Where it stands in llama.cpp's tree."""
    tests: tuple[str, ...]
    """`file::function`: what fails if it is no longer true."""
    then: Then
    """What happens to users if nobody noticed."""
    texts: tuple[str, ...] = ()
    """Pieces of the library's strings that it needs; `tests/llama/test_upstream.py` looks for them in its files."""
