"""Model names: how they are written, parsed and derived, and digests of files."""
