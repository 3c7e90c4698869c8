"""text-embeddings-inference's API: `/embed` and others. Its `/rerank` is in `embeddings`."""
