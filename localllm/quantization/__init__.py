"""Quantizing a model in a process of its own."""
