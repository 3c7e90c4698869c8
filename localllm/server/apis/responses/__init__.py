"""OpenAI's Responses API: requests in, responses and events out, and stored responses for later turns.

Tools of MCP servers are called here, within one response. Begin with `requests`, then `handlers`.
"""
