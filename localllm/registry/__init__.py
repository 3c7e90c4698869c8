"""Names to verified files on disk: finding, downloading, storing, listing and removing models.

Knows no engine, and of a file no more than its header. Begin with `names` and `pull`.

A pull: `pull` resolves a name at its source (`sources/`), which answers with a plan: files with size and SHA-256,
licence and settings. `fetch/` downloads what is missing over several connections and hashes it as it arrives; `disk/`
publishes each file in one step. Only then does a manifest name them. A pull and a loaded model lock their files, so
that `gc` keeps them; the locks are the operating system's and end with their process. No address from a redirect, a
manifest or an HTTP client may be private (`fetch/guard`). `resolve` finds the files of a name for a load.
"""
