"""OpenAI's Responses API: requests in, responses and their events out, and what is kept of them for the next turn."""
