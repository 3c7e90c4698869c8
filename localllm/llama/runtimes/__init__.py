"""llama.cpp libraries on this machine: which exist, which one is used, how one is built or imported.

Imports no library. Begin with `found`.
"""
