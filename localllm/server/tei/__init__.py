"""The API of text-embeddings-inference: `/embed` and what is around it. Its `/rerank` is in `embeddings`."""
