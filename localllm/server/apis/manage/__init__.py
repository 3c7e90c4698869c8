"""Managing models over HTTP, for desktop apps: list, load, unload, pull, remove."""
