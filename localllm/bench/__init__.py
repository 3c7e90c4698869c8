"""Measures OpenAI-style servers from outside: load, figures, tables, a plot. Knows no terminal and starts no server."""
