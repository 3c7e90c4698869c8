"""Grammars of answers with tool calls, and of their arguments in each notation. Begin with `answers`."""
