"""Which sequence gets which tokens in the next step, and where a waiting one goes."""
