"""Writes GGUF files of smaller types, in a process of its own.

What is asked of that process, and what it reports, is in `registry/making`. Begin with `quantize`.
"""
