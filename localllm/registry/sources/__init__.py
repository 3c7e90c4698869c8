"""What the world has: hubs, registries and URLs to plans. Knows nothing of sockets and disks."""
