"""Devices of other machines through llama.cpp's RPC backend, and this machine's devices for others."""
