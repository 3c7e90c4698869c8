"""Grammars over characters: regular expressions, GBNF, lexemes, literals."""
