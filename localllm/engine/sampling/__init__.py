"""Rows of logits to tokens and log-probabilities."""
