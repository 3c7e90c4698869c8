"""What several commands share: model names, reports, the server that `run` uses.

Knows no command. Begin with `report`, through which all output goes.
"""
