"""Ollama's own API, so that its clients find their models here: `/api/*`, as Ollama's server answers it."""
