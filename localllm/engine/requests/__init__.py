"""One request inside the engine: what it wants, its sequence, its reports.

Plain state with derived properties; decides nothing about steps. Begin with `sequence`.
"""
