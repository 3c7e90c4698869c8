"""The APIs, one room per dialect. No dialect knows another; what several share is in `server.common`."""
