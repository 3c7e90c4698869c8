"""The demo model's training text: generators, in one or several modules per kind of conversation."""
