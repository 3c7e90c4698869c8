"""A model in your own Python program: `blocking.LLM`, `async_llm.AsyncLLM`; `models`: those on this machine.

Empty, so that importing it is free.
"""
