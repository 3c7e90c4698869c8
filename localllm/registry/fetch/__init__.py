"""Downloads files and verifies them: connections, ranges, retries, hashes, limits. Knows nothing of models.

Writes only to the partial file that it is given. `guard` refuses private addresses. Begin with `transfer`.
"""
