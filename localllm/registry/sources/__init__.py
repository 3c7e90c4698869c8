"""Resolves models on hubs, in registries and at URLs to plans of files. Knows nothing of sockets and disks.

Any answer of a hub becomes a plan or one of our errors. One module a source; begin with `hugging_face`.
"""
