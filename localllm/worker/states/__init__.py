"""States of slots on disk: the cache of conversations, and slots that clients save by name.

What a saved state depends on is decided here (`identity`), how it is stored in `kvdisk`. Begin with `disk_cache`.
"""
