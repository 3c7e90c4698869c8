"""Phrasings of requests to turn data into JSON, and system messages that ask for JSON only."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

CONVERT = _DATA.phrasings("convert")
"""For lines of keys and values."""

ARRAY = _DATA.phrasings("array")
"""For a comma-separated list."""

TABLE = _DATA.phrasings("table")
"""For facts about several things."""

TABLE_KEYS = _DATA.phrasings("table_keys")

NESTED = _DATA.phrasings("nested")
"""For a text and a nested answer, given as a template or in words."""

ONLY_JSON = _DATA.phrasings("only_json")
"""System messages that name the key of every answer."""

ONLY_JSON_FREE = _DATA.phrasings("only_json_free")
"""System messages that do not name the key of an answer, which then is "answer"."""

EXTRACTING = _DATA.phrasings("extracting")
"""System messages that ask to extract facts from the user's texts."""

JUDGING = _DATA.phrasings("judging")
"""System messages that ask for the mood of the user's texts."""

FREE_KEYS = _DATA.phrasings("free_keys")
"""For a text, with keys chosen by the answer."""
