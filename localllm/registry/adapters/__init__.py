"""LoRA adapters of the models on this machine: how they are named, and those that were added and are kept.

Not here: what a file must look like (`gguf.adapters`), which name means what while a server runs (`runtime.adapters`).
Begin with `names`.
"""
