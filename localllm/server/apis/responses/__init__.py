"""OpenAI's Responses API: requests in, responses and events out, and stored responses for later turns."""
