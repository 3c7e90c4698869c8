"""Our own jokes, riddles, poems and three-line poems, and the topics of small talk."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

JOKES = _DATA.texts("jokes")

RIDDLES = _DATA.rows("riddles")

POEMS = _DATA.mapping("poems")

THREE_LINES = _DATA.mapping("three_lines")

COPIED_POEM = _DATA.text("copied_poem")
"""For topics without a poem."""

POEM_THINGS = _DATA.texts("poem_things")

ACTIVITIES = _DATA.texts("activities")
"""Things to like, singular."""

PLURALS = _DATA.texts("plurals")
"""Things to like, plural."""

ADJECTIVES = _DATA.texts("adjectives")

PETS = _DATA.texts("pets")

PLAIN_WORDS = _DATA.texts("plain_words")

NOUNS = _DATA.texts("nouns")

SENTENCES = _DATA.texts("sentences")
"""Texts to repeat."""
