"""Coding agents on a local model: how each is configured, and how that is undone.

    known       the agents, a description each (`claude`, `codex` ... are their modules)
    choosing    which model and how much context
exports     the configuration as shell commands
jsonc       changes one key of a JSON file with comments, and nothing else
journal     changes the user's files and restores them, even after a kill

Knows nothing of how a server is started, nor of terminals.
"""
