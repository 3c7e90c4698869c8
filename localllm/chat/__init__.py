"""Converts conversations to text with the model's own chat template, and answers back to reasoning, text and calls.

Pure text: no I/O, no processes, no tokens, no llama.cpp. `probing` renders sentinels to learn what a template
accepts, `shaping` adapts the messages to it, `template` renders. `formats/` reads answers. `unreadable` and
`surrogates` say what stands for contents that no text model reads. Begin with `request`, then `template`.
"""
