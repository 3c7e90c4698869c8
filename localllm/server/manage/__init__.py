"""Managing models over HTTP, for desktop apps: what is here, what is loaded, load, unload, pull, remove."""
