"""Grammars over characters: regular expressions, GBNF, lexemes, literals.

Knows no JSON. Begin with `nodes`, the notation's parts, then `patterns`.
"""
