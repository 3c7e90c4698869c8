"""Measurements against the raw library and the best peer: ratios from one run, never bare times."""
