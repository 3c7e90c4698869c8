"""From a request's structure to a compiled constraint; reading it happens in a process that can be killed."""
