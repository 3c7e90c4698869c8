"""One operating-system process per loaded model: the messages, their framing, the child's main, the parent's handle."""
