"""Writes GGUF files of smaller types, in a process of its own."""
