"""Derives facts about a model's answers from renderings of its template: calls, reasoning, whether a format fits.

Knows no format by name. `formats/finding` combines the facts. Begin with `rendering`, then `building`.
"""
