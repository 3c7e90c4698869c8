"""Readers of the parts of an answer: reasoning, text, single calls and sections of calls, messages with headers.

Each reads from a `tape` until its part ends, and knows nothing of what comes before or after. Begin with `messages`
for formats that consist of messages with headers; `formats/reader` combines the others.
"""
