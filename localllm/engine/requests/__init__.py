"""One request inside the engine: what it wants, its sequence, its reports."""
