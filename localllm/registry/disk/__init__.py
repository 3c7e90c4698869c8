"""The store: contents by digest, manifests by name. Knows nothing of networks."""
