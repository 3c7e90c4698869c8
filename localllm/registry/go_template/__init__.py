"""Translates Go chat templates, as Ollama's models have them, to Jinja.

Runs no template; what is not supported is refused by name and position. Begin with `translating`, which lists the
rest.
"""
