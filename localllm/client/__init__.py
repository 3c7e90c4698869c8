"""Talks to a localllm server: `api` over HTTP; `sidecar` starts one and owns it. Empty, so that it costs nothing."""
