"""The operations behind every interface: find, load, chat, complete, embed, rerank, tokenize, unload, pull, make.

The seam between faces (`server/`, `llm/`) and processes (`supervisor/`): asyncio above, sessions below. Knows no HTTP
and no llama.cpp. Begin with `runtime`.

A request here: `finding` turns a name into a model, `runtime` asks the supervisor for its session and submits. Deltas
come back through a mailbox; `answers` separates reasoning, text and calls by the model's format (`chat/formats`).
`transcripts/` makes many requests of one sound.
"""
