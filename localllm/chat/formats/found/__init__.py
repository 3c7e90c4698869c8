"""Derives facts about a model's answers from renderings of its template: calls, reasoning, whether a format fits."""
