"""What could be downloaded: where it is found, whether it fits this machine, how fast it would be."""
