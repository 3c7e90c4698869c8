"""Converts the structures that requests ask for to grammars in llguidance's notation. Pure text."""
