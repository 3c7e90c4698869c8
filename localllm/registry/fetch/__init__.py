"""Downloads files and verifies them. Knows nothing of models."""
