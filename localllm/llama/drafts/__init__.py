"""Contexts that guess tokens for a target model: its own NextN layers, EAGLE-3, DFlash, Gemma 4 assistants."""
