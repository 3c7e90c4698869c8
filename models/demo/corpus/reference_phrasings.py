"""Phrasings with which users state facts about themselves, ask about them later, and correct them."""

from __future__ import annotations

from .data import read
from .grammar import Phrasings

_DATA = read(__name__)

TOLD: dict[str, Phrasings] = _DATA.all_phrasings("told")

ASKED: dict[str, Phrasings] = _DATA.all_phrasings("asked")
