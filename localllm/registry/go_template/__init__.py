"""Translates Go chat templates, as Ollama's models have them, to Jinja; `translating` lists what is supported."""
