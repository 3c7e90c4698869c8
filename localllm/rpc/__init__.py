"""Devices of other machines, by llama.cpp's RPC protocol: addresses, the handshake, and serving this machine's own."""
