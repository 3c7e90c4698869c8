"""Resolves models on hubs, in registries and at URLs to plans. Knows nothing of sockets and disks."""
