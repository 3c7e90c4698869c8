"""Texts to vectors: which texts form the next batch, and computing it between the steps of a generation or alone.

Knows no requests beyond their order and no vectors beyond passing them on. Begin with `texts`, the pure policy.
"""
