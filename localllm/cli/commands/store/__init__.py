"""The commands about the models of this machine: downloading, listing, changing, removing, uploading.

`registry/` does the work; here it is asked, shown and confirmed. Running models, and measuring them, is one room up.
Begin with `models`.
"""
