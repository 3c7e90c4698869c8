"""Finds the fastest way of loading a model on this machine: rounds of candidates that alternate with the default.

Pure search (`search`, `comparing`) apart from the worker processes that it measures (`workers`). Keeps a result only
if it is faster again in a separate check. Begin with `search`.
"""
