"""llama-server's own endpoints: completion, infill, tokens, templates, slots."""
