"""Settings: their names, types and defaults, where they come from, and those of single models."""
