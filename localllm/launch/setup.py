"""The server and model for an agent (`Target`), and the agent's configuration for them (`Setup`). Plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from localllm.types import MediaKind

KEY_VARIABLE = "LOCALLLM_API_KEY"
"""The variable with the key, for agents that allow any name."""
NO_KEY = "localllm"
"""The placeholder for agents that require a key although the server does not."""
PROVIDER = "localllm"
"""The server's name in an agent's settings."""
MAX_OUTPUT_TOKENS = 32_000


class Target(NamedTuple):
    """The server and its model."""

    url: str
    """The server's URL without a path."""
    model: str
    ctx: int
    """The loaded context in tokens, for prompt and answer together."""
    key: str | None
    """None if the server requires no key."""
    thinks: bool = False
    embedder: str | None = None
    """A model of the server that only embeds texts, if it has one."""
    reranker: str | None = None
    """Likewise, one that ranks texts."""
    reads: frozenset[MediaKind] = frozenset()
    """What it reads beside text."""

    @property
    def sees(self) -> bool:
        """Whether it reads pictures."""
        return "image" in self.reads

    @property
    def hears(self) -> bool:
        """Whether it reads sounds."""
        return "audio" in self.reads

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def token(self) -> str:
        """The key to send, or a placeholder."""
        return self.key or NO_KEY

    @property
    def max_output(self) -> int:
        """Maximum tokens of an answer: a quarter of the context."""
        return min(self.ctx // 4, MAX_OUTPUT_TOKENS)


class AgentFolders(NamedTuple):
    """Folders of an agent's files."""

    home: Path
    environ: Mapping[str, str]
    files: Path
    """A private folder for `Setup.files`."""


class Key(NamedTuple):
    """A key of a JSON file and its new value."""

    path: tuple[str, ...]
    value: Any


class Change(NamedTuple):
    """A change of a user's file."""

    file: Path
    keys: tuple[Key, ...]


class Setup(NamedTuple):
    """An agent's configuration, in addition to the user's arguments."""

    environment: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    """Variables to remove, since they would override ours."""
    arguments: tuple[str, ...] = ()
    """Arguments before the user's."""
    files: Mapping[str, str] = {}
    """Name -> text of files in `Place.files`, readable only by the user and deleted at the end."""
    change: Change | None = None
    panel: str = ""
    """Instructions for settings that only the user can enter."""
    notes: tuple[str, ...] = ()


class Agent(NamedTuple):
    """The description of an agent."""

    name: str
    title: str
    program: str
    """Empty for editor extensions, whose settings the user enters."""
    install: str
    """The command that installs it."""
    uses: str
    """One line: the API it uses, and how it is configured."""
    set_up: Callable[[Target, AgentFolders], Setup]
    places: tuple[str, ...] = ()
    """Folders below the home folder into which installers put it, and which may not be in PATH."""
    least_ctx: int = 16_384
    """Minimum context in tokens; below it the agent's own prompt leaves too little room."""
