"""How people ask to turn data into JSON, and the system messages that ask for nothing but JSON."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

CONVERT = _DATA.phrasings("convert")
"""Of lines of keys and values."""

ARRAY = _DATA.phrasings("array")
"""Of a comma list."""

TABLE = _DATA.phrasings("table")
"""Of facts of several things."""

TABLE_KEYS = _DATA.phrasings("table_keys")

NESTED = _DATA.phrasings("nested")
"""Of a text and an answer with objects or arrays inside, as a template or in words."""

ONLY_JSON = _DATA.phrasings("only_json")
"""System messages that name the key of every answer."""

ONLY_JSON_FREE = _DATA.phrasings("only_json_free")
"""System messages that leave the key of an answer to the model: it is "answer"."""

EXTRACTING = _DATA.phrasings("extracting")
"""System messages that ask to extract facts out of what the user says."""

JUDGING = _DATA.phrasings("judging")
"""System messages that ask how what the user says sounds."""

FREE_KEYS = _DATA.phrasings("free_keys")
"""Of a text, where the answer is to name the keys."""
