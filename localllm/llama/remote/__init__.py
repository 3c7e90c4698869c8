"""Devices of other machines through llama.cpp's RPC backend, and this machine's devices for others.

Addresses, the handshake and the server in front are in `localllm/rpc`. Begin with `devices`.
"""
