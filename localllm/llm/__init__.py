"""A model in your own Python program: `blocking`, `async_llm`; the models on this machine: `models`. Empty on purpose."""
