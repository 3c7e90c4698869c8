"""Measures a server with OpenAI's API from outside: load, figures, a table, a plot.

Starts no server and writes to no terminal (`cli/commands/bench` does); uses only public endpoints, so any server can be
measured. Begin with `levels`, which says what is measured and when a level is complete, then `load`.
"""
