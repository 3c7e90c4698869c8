"""Rows of logits to tokens and log-probabilities.

`native` calls the compiled sampler, `sampler` computes the same in NumPy and is its oracle. Knows nothing of
sequences' slots and nothing of grammars beyond a mask. Begin with `drawing`.
"""
