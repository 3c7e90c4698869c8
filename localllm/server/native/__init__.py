"""Endpoints beside the vendors' APIs: tokens, templates, slots. Named and shaped as llama-server's."""
