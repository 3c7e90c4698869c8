"""What an agent is told (`Target`), and what has to be set for that (`Setup`). Plain data; knows no agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

KEY_VARIABLE = "LOCALLLM_API_KEY"
"""Where agents that read their key from a variable of any name find it."""
NO_KEY = "localllm"
"""Agents want a key also where the server wants none."""
PROVIDER = "localllm"
"""What the server is called in an agent's settings."""
MAX_OUTPUT_TOKENS = 32_000


class Target(NamedTuple):
    """The server, and the model there."""

    url: str
    """Without a path."""
    model: str
    ctx: int
    """Tokens that prompt and answer have together, as it is loaded."""
    key: str | None
    """None: the server wants none."""
    thinks: bool = False

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def token(self) -> str:
        """Something to send as the key."""
        return self.key or NO_KEY

    @property
    def max_output(self) -> int:
        """Tokens of one answer: a quarter of the context is left for it."""
        return min(self.ctx // 4, MAX_OUTPUT_TOKENS)


class Place(NamedTuple):
    """Where an agent looks for its files."""

    home: Path
    environ: Mapping[str, str]
    files: Path
    """A private folder for `Setup.files`."""


class Key(NamedTuple):
    """A key of a JSON file, and its new value."""

    path: tuple[str, ...]
    value: Any


class Change(NamedTuple):
    """Of a file of the user's."""

    file: Path
    keys: tuple[Key, ...]


class Setup(NamedTuple):
    """What an agent needs beside its own command line."""

    environment: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    """Variables that would lead it elsewhere."""
    arguments: tuple[str, ...] = ()
    """Before those of the user."""
    files: Mapping[str, str] = {}
    """Name -> text, in `Place.files`, for the user's eyes only; gone when the agent is."""
    change: Change | None = None
    panel: str = ""
    """What the user types into the agent's settings, where nothing else can be done."""
    notes: tuple[str, ...] = ()


class Agent(NamedTuple):
    """A description."""

    name: str
    title: str
    program: str
    """Empty: it lives in an editor, and its settings are typed."""
    install: str
    """What to type to get it."""
    uses: str
    """The API, and where it is told: one line."""
    set_up: Callable[[Target, Place], Setup]
    places: tuple[str, ...] = ()
    """Folders below the home folder where installers put it, if they are not in PATH."""
    least_ctx: int = 16_384
    """Tokens below which its own prompt leaves too little."""
