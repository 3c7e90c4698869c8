"""Finding out which way of loading a model is fastest on this machine: rounds by turns against the default."""
