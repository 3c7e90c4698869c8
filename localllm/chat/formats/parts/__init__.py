"""Readers of the parts of an answer: reasoning, text, single calls and sections of calls, messages with headers."""
