"""Finds the fastest way of loading a model on this machine: rounds of candidates that alternate with the default."""
