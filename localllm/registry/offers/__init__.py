"""What could be downloaded: where it is found, whether it fits this machine, how fast it would be.

Downloads nothing: reads headers by range requests, bounded in number and time. Begin with `requests`.
"""
