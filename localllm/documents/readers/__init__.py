"""One module for each format: bytes to `Contents`. Begin with `archive`, which tells Office's files apart.

Runs in `reading_child` only, since the libraries read what strangers send. They are the extra `documents`; none of them
opens a file or a connection.
"""
