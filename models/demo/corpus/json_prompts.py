"""Phrasings of requests for JSON, of every kind, for training and evaluation."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

EXTRACT = _DATA.phrasings("extract")
"""For a text and keys; `the_keys` also states that they are keys."""

TEMPLATE = _DATA.phrasings("template")
"""For a text and a template of the answer."""

LIST = _DATA.phrasings("list")
LIST_IN_OBJECT = _DATA.phrasings("list_in_object")

ASK = _DATA.phrasings("ask")
"""For a question with one value; the answer chooses the key."""

ASK_KEY = _DATA.phrasings("ask_key")

SUM = _DATA.phrasings("sum")
SENTIMENT = _DATA.phrasings("sentiment")
CATEGORY = _DATA.phrasings("category")

INVENT = _DATA.phrasings("invent")
INVENT_FREE = _DATA.phrasings("invent_free")
