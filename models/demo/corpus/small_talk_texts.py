"""Our own jokes, riddles, poems and three-line poems, and the things that small talk is about."""

from __future__ import annotations

from .data import read

_DATA = read(__name__)

JOKES = _DATA.texts("jokes")

RIDDLES = _DATA.rows("riddles")

POEMS = _DATA.mapping("poems")

THREE_LINES = _DATA.mapping("three_lines")

COPIED_POEM = _DATA.text("copied_poem")
"""For what there is no poem about."""

POEM_THINGS = _DATA.texts("poem_things")

ACTIVITIES = _DATA.texts("activities")
"""What one can like, as one thing."""

PLURALS = _DATA.texts("plurals")
"""What one can like, as many things."""

ADJECTIVES = _DATA.texts("adjectives")

PETS = _DATA.texts("pets")

PLAIN_WORDS = _DATA.texts("plain_words")

NOUNS = _DATA.texts("nouns")

SENTENCES = _DATA.texts("sentences")
"""What one can be asked to repeat."""
