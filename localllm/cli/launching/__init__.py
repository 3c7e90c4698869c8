"""`localllm launch`: runs a coding agent on a local model, and undoes its changes afterwards."""
