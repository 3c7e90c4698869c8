"""How many threads compute a step: what others use of the cores, what was tried, and what is fastest."""
