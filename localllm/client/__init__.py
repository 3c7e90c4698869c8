"""Talks to a localllm server: `api` over HTTP; `sidecar` starts one and owns it. Empty, so that importing is free."""
