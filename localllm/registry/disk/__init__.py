"""The store: blobs by digest, manifests by name, locks. Knows nothing of networks.

`layout` is the only module that turns a name or a digest into a path. A listed model is whole, whenever a process
dies. Begin with `store`.
"""
