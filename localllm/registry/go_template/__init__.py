"""Chat templates in Go's language, as Ollama's models have them, become Jinja; `translate` says what is covered."""
