"""What could be downloaded: where it is found, whether it fits this machine, and how fast it will be."""
