"""Moods, favourites, advice and the day's news: small talk with phrases shared by many themes."""

from __future__ import annotations

from .data import Data, read
from .grammar import Phrasings
from .small_talk_phrases import Intent, intent

_DATA = read(__name__)

MOOD = _DATA.phrasings("mood")
MOODS: tuple[tuple[str, str, str], ...] = _DATA.rows("moods")
FAVORITE = _DATA.phrasings("favorite")
FAVORITES: tuple[tuple[str, str, str], ...] = _DATA.rows("favorites")
_ADVICE = _DATA.phrasings("advice")


def _themed(data: Data) -> Intent:
    """Has its own phrasings; with a `theme`, also the shared requests for advice."""
    own = data.own_phrasings()
    if "theme" not in data:
        return intent(data, own)
    shared = [
        [each.replace("{theme}", data.text("theme")) for each in part] for part in (_ADVICE.train, _ADVICE.held_out)
    ]
    return intent(data, Phrasings((*shared[0], *own.train), (*shared[1], *own.held_out)))


THEMES = [_themed(each) for each in _DATA.tables("theme")]
