"""Reads and writes answers in a model's own format, and finds out which format that is."""
