"""Decides and steps: which sequence gets which tokens next. Pure but for the `Backend` it is handed."""
