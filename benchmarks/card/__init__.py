"""What a machine with a GPU has to show while it is there: prepared elsewhere, run by one command, bounded in time.

Begin with `carry` (what to take along, and the command for the other machine) and `check` (sections, limits, tables).
Knows no kind of GPU: it measures whatever device llama.cpp lists first.
"""
