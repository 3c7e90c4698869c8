"""How many threads compute a step: what others use of the cores, what was tried, and what is fastest.

Reads no clock of the system itself; measurements are handed in. Begin with `governor`.
"""
