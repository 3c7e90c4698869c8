"""Contexts that guess tokens for a target model: its own NextN layers, EAGLE-3, DFlash, Gemma 4 assistants.

Computes guesses and nothing else: how many are asked for and which are accepted is decided in `engine`. Begin with
`target_vectors`, from which most of them guess.
"""
