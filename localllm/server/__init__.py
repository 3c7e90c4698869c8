"""HTTP and nothing else: one package per API, the gate before them, errors, log. Never imports llama_cpp."""
