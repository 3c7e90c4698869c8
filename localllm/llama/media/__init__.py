"""libmtmd: from pixels and samples to rows of vectors that a text model takes in place of tokens.

Begin with `projector`; `opening` finds and binds the library. Knows nothing of files of pictures or sounds, of
processes, or of which rows are wanted.
"""
