"""Talks to a localllm server: typed requests over HTTP (`api`), finding one (`discovery`), starting one (`sidecar`).

Knows nothing of models, and nothing of the server's code except the bodies in `types`. Empty, so that importing is
free. Begin with `api`; `sidecar` starts `serve --ready json` and ends it by closing its stdin.
"""
