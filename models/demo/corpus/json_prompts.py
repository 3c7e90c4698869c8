"""How people ask for JSON: the phrasings of every kind of request, those to train on and those to examine with."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

EXTRACT = _DATA.phrasings("extract")
"""Of a text and the keys; `the_keys` also says that they are keys."""

TEMPLATE = _DATA.phrasings("template")
"""Of a text and a template of the answer."""

LIST = _DATA.phrasings("list")
LIST_IN_OBJECT = _DATA.phrasings("list_in_object")

ASK = _DATA.phrasings("ask")
"""Of a question, for one value; the key is left to the answer."""

ASK_KEY = _DATA.phrasings("ask_key")

SUM = _DATA.phrasings("sum")
SENTIMENT = _DATA.phrasings("sentiment")
CATEGORY = _DATA.phrasings("category")

INVENT = _DATA.phrasings("invent")
INVENT_FREE = _DATA.phrasings("invent_free")
