"""Chats on disk: the form of their files, those that the user saves, and those that keep themselves as sessions.

Knows no terminal, and no model but by name. Begin with `saved`, then `sessions`.
"""
