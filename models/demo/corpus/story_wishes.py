"""Phrasings of requests for stories, and beginnings for the assistant to continue."""

from __future__ import annotations

from dataclasses import dataclass

from .data import read

_DATA = read(__name__)


@dataclass(frozen=True, slots=True)
class Mood:
    """The requested mood of a story, in words, and the plots with that mood."""

    words: str
    plots: tuple[str, ...]
    night: bool = False


MOODS = (
    Mood("[funny|silly|short funny]", ("stuck", "noise", "build", "sleep")),
    Mood("[happy|cheerful|nice]", ("gift", "share", "build", "dream", "shy")),
    Mood("[sad|sad but nice|touching]", ("quarrel", "lost", "shy", "share")),
    Mood("[scary|spooky|little scary]", ("noise", "fear", "storm")),
    Mood("[bedtime|good night|short bedtime]", ("sleep", "seed", "journey", "dream", "shy", "lost"), night=True),
    Mood("[quiet|calm|peaceful]", ("sleep", "seed", "journey")),
    Mood("[exciting|wild|thrilling]", ("storm", "fear", "journey", "noise")),
    Mood("[sweet|warm|lovely]", ("gift", "share", "quarrel", "stranger")),
    Mood("[fairy|children's|kids]", ("dream", "seed", "stranger", "lost", "honest", "promise")),
)

REQUESTS = _DATA.phrasings("requests")

REQUESTS_ABOUT = _DATA.phrasings("requests_about")

ANOTHER = _DATA.phrasings("another")

ABOUT_ME = _DATA.phrasings("about_me")

STARTS = _DATA.phrasings("starts")

WRAPPERS = _DATA.phrasings("wrappers")
