"""Managing models over HTTP, for desktop apps: list, load, unload, pull, remove.

The bodies are in `types/wire`, shared with the client. Begin with `handlers`.
"""
