"""OpenAI's API: requests in, responses out. Knows the runtime, not what is below it."""
