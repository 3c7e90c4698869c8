"""States of slots on disk: the cache of conversations, and slots that clients save by name."""
