"""A model in your own Python program: `blocking.LLM`, `async_llm.AsyncLLM`, and `models`, those on this machine.

Knows no workers and no HTTP (`runtime` does the work). Empty, so that importing it is free. Begin with `async_llm`.
"""
