"""The wordings of what notes about a shop or house tell, and of the questions about it."""

from __future__ import annotations

from .data import read
from .grammar import Phrasings

_DATA = read(__name__)

TOLD: dict[str, Phrasings] = _DATA.all_phrasings("told")

ASKED: dict[str, Phrasings] = _DATA.all_phrasings("asked")
