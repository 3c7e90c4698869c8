"""Anthropic's Messages API: requests in, messages and their events out."""
