"""Finds and describes models stored by other programs (Ollama, LM Studio, llama.cpp, Hugging Face).

Changes nothing and adopts nothing (`registry/adopt` does). Begin with `walk`.
"""
