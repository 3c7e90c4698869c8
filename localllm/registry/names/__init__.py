"""Model names: how they are written, parsed and derived, and digests of files.

Pure text; touches no disk and no network. Begin with `model_names`.
"""
