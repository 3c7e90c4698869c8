"""What slots hold, as bytes: saved states, the memory that they are saved into, and what a memory can drop.

Decides neither what is saved nor when (`engine/cache` does). Begin with `saved`.
"""
