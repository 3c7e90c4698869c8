"""Converts messages to text with the model's own template, and back. Pure text: no I/O, processes or llama.cpp."""
