"""Converts the arguments of calls, in every notation that models write, to JSON as they arrive, and back."""
