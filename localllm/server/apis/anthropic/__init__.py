"""Anthropic's Messages API: requests in, messages and their events out.

Knows no other API; `fields` and `requests` say what is honoured. Begin with `handlers`.
"""
