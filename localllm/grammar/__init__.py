"""Structures to grammars: what a request asks of an answer's shape, in llguidance's notation. Pure text."""
