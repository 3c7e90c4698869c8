"""Phrasings of notes about a shop or house, and of questions about them."""

from __future__ import annotations

from .data import read
from .grammar import Phrasings

_DATA = read(__name__)

TOLD: dict[str, Phrasings] = _DATA.all_phrasings("told")

ASKED: dict[str, Phrasings] = _DATA.all_phrasings("asked")
