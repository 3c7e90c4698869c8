"""The only folder that imports llama_cpp: the library, devices, a model in memory, its vocabulary, its KV streams.

Implements `engine.backend`; knows no requests and no policy. A fact of one build of llama.cpp (a struct, an enum, a
log line, a formula) stands here or in `gguf`, nowhere else. Begin with `library`, which loads llama.cpp, `selftest`,
which finds a variant that works, `model`, and `backend`, which makes all that computes for one.
"""
