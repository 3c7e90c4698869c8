"""Texts to vectors, beside a generation or alone."""
