"""Vectors of texts, and texts ranked by a query: `/v1/embeddings` and `/v1/rerank` with its other names and shapes."""
