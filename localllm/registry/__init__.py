"""Names to verified files on disk. Knows nothing of engines."""
