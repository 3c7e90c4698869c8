"""Coding agents on a local model: what each of them has to be told, and how that is taken back.

    known       the agents, a description each (`claude`, `codex` ... are their modules)
    choosing    which model and how much context
    exports     what would be set, for a shell
    jsonc       changes a key of a JSON file with comments, and nothing else of it
    journal     changes the user's files and changes them back, also after a kill

Knows nothing of how a server is started, nor of terminals.
"""
