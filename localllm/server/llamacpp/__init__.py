"""Endpoints beside the vendors' APIs, named and shaped as llama-server's: tokens, templates, slots."""
