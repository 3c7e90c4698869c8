"""Parts of what a GGUF file's header says, as planning and workers need them: drafts, matrices, projectors.

Not here: `types.ModelInfo`, which holds the first two, and how headers are read (`gguf`). Begin with `projectors`.
"""
