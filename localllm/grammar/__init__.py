"""Structures to grammars: what a request says of an answer's shape, in the words of llguidance. Pure text."""
