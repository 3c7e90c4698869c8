"""Configures coding agents for a local model, and undoes the configuration.

    known       the agents, each described by a module such as `claude` or `codex`
    choosing    chooses the model and its context
    exports     the configuration as shell commands
    jsonc       changes one key of a JSON file with comments, and nothing else
    journal     changes the user's files and restores them, even after a kill

Knows neither servers nor terminals. Begin with `known`.
"""
