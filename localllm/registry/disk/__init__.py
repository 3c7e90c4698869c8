"""The store: blobs by digest, manifests by name. Knows nothing of networks."""
