"""text-embeddings-inference's API: `/embed` and others. Its `/rerank` is in `embeddings`.

Has its own error format. Begin with `handlers`.
"""
