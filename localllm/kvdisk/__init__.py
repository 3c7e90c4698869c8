"""KV states of conversations on disk, for when main memory has no room for them, or the process is gone.

    kv/.gate                     a lock, held for moments: who makes room, and who publishes a file
    kv/FINGERPRINT/about.json    for people: which model, and all that its states depend on
    kv/FINGERPRINT/TOKENS.kv     one conversation (`file`); its time of modification is when it was last used
    kv/FINGERPRINT/tmp-RANDOM    one being written; its writer holds a lock on it
    slots/FINGERPRINT/NAME.kv    what a client saved of a slot, under a name of its own (`named`); the rest is as in kv

FINGERPRINT and TOKENS are 32 hexadecimal digits each; the gate is for both folders. `cache` is what an engine uses;
`folder` and `named` are the only ones that make, name or delete files; `survey` is for `localllm kv`. Knows nothing of
llama.cpp, slots or requests: a state is opaque bytes that are whole or not there.
"""
