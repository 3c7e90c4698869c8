"""The builds of llama.cpp that localllm can load, and what it knows of each: layouts of structs, signatures, numbers.

Read from `data/builds`, which `native/llama_headers.py` makes from each version's own headers. Plain data; does not
know which libraries are on this machine (`llama/runtimes/` does).
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

import msgspec

SECTIONS = ("structs", "tables", "functions", "numbers", "architectures")


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """One version of llama.cpp."""

    version: str
    """What `llama_version()` returns, without `-dev`."""
    label: str
    """For people: `0.6 (b11549)`."""
    ggml: str
    """What `ggml_version()` returns."""
    commit: str
    """Beginning of the commit; empty if its library does not tell one."""
    made_from: str
    """For people."""
    switches_embeddings: bool = True
    """Whether `llama_set_embeddings` may change what a context computes after its first batch; 0.7.0 then crashes."""
    unknown_projectors: tuple[str, ...] = ()
    """Types of projectors that localllm knows and its libmtmd does not."""
    structs: dict[str, tuple[int | tuple[str, str], ...]]
    """Name -> its size in bytes on 64-bit systems, then name and type of each field."""
    tables: dict[str, tuple[str, ...]]
    """Name of a struct of function pointers -> its fields."""
    functions: dict[str, tuple[str, ...]]
    """Name, mangled if it is C++, -> types of its result and its arguments."""
    numbers: dict[str, int]
    """Enumerators and macros."""
    architectures: dict[str, bool]
    """Values of `general.architecture` that it can load."""

    @property
    def state_version(self) -> int:
        """Format of a saved sequence."""
        return self.numbers["LLAMA_STATE_SEQ_VERSION"]

    @property
    def rpc_protocol(self) -> tuple[int, int]:
        """Major and minor version: a server's major must be equal, its minor not larger."""
        return self.numbers["RPC_PROTO_MAJOR_VERSION"], self.numbers["RPC_PROTO_MINOR_VERSION"]

    def fields(self, struct: str) -> list[tuple[str, str]]:
        """Name and type of each."""
        return [each for each in self.structs[struct] if not isinstance(each, int)]

    def slot(self, table: str, function: str) -> int:
        """Place of a function pointer in a table."""
        return self.tables[table].index(function)


@functools.cache
def known() -> tuple[Build, ...]:
    """All of them, oldest first."""
    folder = importlib.resources.files("localllm").joinpath("data", "builds")
    names = (path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json"))
    return tuple(named(name) for name in sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


@functools.cache
def named(version: str) -> Build:
    """The build of that version. Raises `KeyError`."""
    return msgspec.convert(_whole(version), Build)


def _whole(version: str) -> dict[str, Any]:
    """A file holds what differs from the build that it is `like`; None stands for what is gone."""
    path = importlib.resources.files("localllm").joinpath("data", "builds", f"{version}.json")
    try:
        data: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise KeyError(version) from None
    if data["like"]:
        base = _whole(data["like"])
        for section in SECTIONS:
            changed = base[section] | data[section]
            data[section] = {name: value for name, value in changed.items() if value is not None}
    return data
