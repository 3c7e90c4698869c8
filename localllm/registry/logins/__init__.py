"""The user's credentials for hubs and registries, read from where other tools store them.

Writes none, and gives each to its own origin only. Begin with `credentials`.
"""
