"""LM Studio's model lists, which clients read for tool support and the loaded context. Chats use OpenAI's API.

Lists only; begin with `models`.
"""
