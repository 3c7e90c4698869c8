"""Decides and steps: which sequence gets which tokens next. Pure except for the `Backend` it is given.

Begin with `building`, which makes the parts: `engine` takes requests, `cycle` runs one step after the other, `planning`
decides it, `stepping` computes it. A `sequence` is a request, its progress and what its tokens are drawn with.
"""
