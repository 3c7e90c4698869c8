"""Phrasings of system messages that give the assistant an identity, and of questions about it."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

PLAIN = _DATA.phrasings("plain")
WITH_ROLE = _DATA.phrasings("with_role")
EXTRAS = _DATA.texts("extras")
NO_NAME = _DATA.texts("no_name")
MADE_BY = _DATA.texts("made_by")

TRAITS = _DATA.texts("traits")
JOBS = _DATA.texts("jobs")

NAME = _DATA.phrasings("name")
WHO = _DATA.phrasings("who")
IS_IT = _DATA.phrasings("is_it")
CALL_YOU = _DATA.phrasings("call_you")
JOB = _DATA.phrasings("job")
MAKER = _DATA.phrasings("maker")
