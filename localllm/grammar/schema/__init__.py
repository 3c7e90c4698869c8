"""JSON Schema, keyword by keyword, rewritten so that llguidance enforces it exactly. Begin with `schemas`."""
