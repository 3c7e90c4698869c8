"""OpenAI's API: requests in, responses out. Knows the runtime, not what is below it.

Chat and plain completions, and the model list. Begin with `requests`, then `handlers`.
"""
