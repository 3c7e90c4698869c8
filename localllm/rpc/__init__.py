"""Devices of other machines, by llama.cpp's RPC protocol: the handshake, and serving this machine's own.

The protocol has no authentication, so `front` admits clients by network and gives each a process. Knows no models.
Begin with `front`.
"""
