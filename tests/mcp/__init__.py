"""MCP by its official SDK: our server with its client, our client with its server, real processes on loopback."""
