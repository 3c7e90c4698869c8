"""Bytes from anywhere to a file, verified. Knows nothing of models."""
