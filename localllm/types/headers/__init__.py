"""What a GGUF file's header says, as planning and workers need it: models, drafts, matrices, projectors.

Not here: how headers are read (`gguf`). Begin with `models`.
"""
