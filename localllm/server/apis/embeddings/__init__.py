"""Embeddings and reranking: `/v1/embeddings`, and `/v1/rerank` with its other names and formats.

Batches nothing itself (`engine/embedding` does). Begin with `handlers`.
"""
