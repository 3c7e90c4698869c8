"""The text that the demo model learns from: generators, one module or a few for each kind of conversation."""
