"""OpenAI's API: which fields we serve, requests in, responses out. Knows of the runtime, not of what is below it."""
