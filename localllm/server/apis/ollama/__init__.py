"""Ollama's API, for its clients: `/api/*`.

Its errors and streams have their own format; its port is opened by `main`. Begin with `handlers`.
"""
