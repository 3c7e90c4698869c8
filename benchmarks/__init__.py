"""Benchmarks against the raw library and the best peer. They report ratios within one run, never bare times."""
