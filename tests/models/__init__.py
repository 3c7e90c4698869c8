"""Makers of tiny seeded random GGUF models, and what runs them in child processes. Helpers, no tests."""
