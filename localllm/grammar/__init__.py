"""Converts the structures that requests ask for to grammars in llguidance's notation. Pure text.

A structure is enforced in full or refused with the path of the keyword. Compiles nothing and knows no vocabulary
(`worker/grammars` does). Begin with `compose`, then `schema/schemas`.
"""
