"""The endpoints as data: the OpenAPI document and the table of every request field.

Tests compare both with what is served. Begin with `endpoints`, the list of all operations.
"""
