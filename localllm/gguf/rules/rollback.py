"""Which recurrent memories can return to earlier states: `llm_arch_supports_rs_rollback` in src/llama-arch.cpp."""

from __future__ import annotations

ROLLS_BACK = frozenset({"bailingmoe3", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe"})
"""Architectures that `tests/llama/test_rollback.py` has shown to roll back exactly, and their siblings with the same
graphs; llama.cpp names more."""
