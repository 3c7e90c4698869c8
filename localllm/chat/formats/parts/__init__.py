"""The parts of an answer: thoughts, texts, calls one by one and in sections, messages with headers."""
