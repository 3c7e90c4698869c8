"""Reads and writes answers in a model's own format, and finds out which format that is.

`finding` derives the description of a format (`types/formats`) by rendering; `reader` reads an answer by it as it
arrives, `writer` writes one. Nothing here knows a model's name, except `known`. Begin with `reading`, then `reader`.
"""
