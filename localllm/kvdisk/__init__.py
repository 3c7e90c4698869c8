"""KV states of conversations on disk, for when main memory has no room for them, or the process is gone.

    kv/.gate                     a lock, held for moments: who makes room, and who publishes a file
    kv/FINGERPRINT/about.json    for people: which model, and all that its states depend on
    kv/FINGERPRINT/TOKENS.kv     one conversation (`file`); its time of modification is when it was last used
    kv/FINGERPRINT/tmp-RANDOM    one being written; its writer holds a lock on it

FINGERPRINT and TOKENS are 32 hexadecimal digits each. `cache` is what an engine uses; `folder` is the only one that
makes, names or deletes files; `survey` is for `localllm kv`. Knows nothing of llama.cpp, slots or requests: a state is
opaque bytes that are whole or not there.
"""
