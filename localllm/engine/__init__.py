"""Decides and steps: which sequence gets which tokens next. Pure except for the `Backend` it is given."""
