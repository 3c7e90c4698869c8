"""What llama.cpp makes of a GGUF header: rules copied from the files of its source that each module's docstring names.

Begin with `memory.py`: what each layer stores per token. `draft_heads.py` dispatches to the drafts that guess from a
target's hidden states. `llama/facts.py` lists each rule with the test that fails when upstream moves. Not here: the
format itself (`gguf/`), and what a plan makes of these facts (`supervisor/`).
"""
