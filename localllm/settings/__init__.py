"""Settings: their names, types and defaults, where they come from, and those of single models.

Applies none of them and starts nothing. Begin with `config`, which merges the sources.
"""
