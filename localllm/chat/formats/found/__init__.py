"""What renderings of a template say of the answers of its model: calls, thoughts, whether a description fits."""
