"""llama-server's own endpoints: completion, infill, tokens, templates, slots.

Its chat endpoints are OpenAI's, in `openai/`. Begin with `handlers`; what is refused is listed in `fields`.
"""
