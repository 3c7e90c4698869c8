"""KV states of conversations on disk, for when main memory has no room for them or the process has ended.

    kv/.gate                     a lock, held briefly while making room or publishing a file
    kv/FINGERPRINT/about.json    for people: which model, and all that its states depend on
    kv/FINGERPRINT/TOKENS.kv     one conversation (`file`); its modification time is its last use
    kv/FINGERPRINT/tmp-RANDOM    one being written; its writer holds a lock on it
    slots/FINGERPRINT/NAME.kv    a slot's content saved by a client under a name (`named`); other files as in kv
    media/MODEL/CONTENT.rows     an encoded picture or sound (`media_files`), which has no lock and no fingerprint

FINGERPRINT and TOKENS are 32 hexadecimal digits each; the gate is for both folders. `cache` is what an engine uses;
only `folder` and `named` create, name or delete files; `survey` is for `localllm kv`. Knows nothing of llama.cpp,
slots or requests: a state is opaque bytes, complete or absent. Begin with `cache`, then `folder`.
"""
