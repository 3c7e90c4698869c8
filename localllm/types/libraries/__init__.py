"""Builds of llama.cpp that localllm can load, and the wheels that bring them. Plain data; nothing is loaded.

Which of them are on this machine: `llama/runtimes/`. Begin with `builds`.
"""
