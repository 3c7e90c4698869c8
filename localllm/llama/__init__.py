"""The only folder that imports llama_cpp: the library, devices, a model in memory, its vocabulary, its KV streams."""
