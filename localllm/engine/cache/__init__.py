"""What is in the KV cache and the tiers below it: slots, main memory, the disk.

    slots  --save-->  main memory  --store-->  disk        save: a slot's state becomes an entry; store: a file
    slots  <-restore- main memory  <--load---  disk        load: a file becomes an entry; restore: an entry, a slot's KV

An *entry* is what one slot held: tokens, domain, state, checkpoints. A *state* is a slot's KV as the backend packs
it. A *checkpoint* is the part of a state that a memory that cannot drop its tail needs to go back to one position. To
*evict* is to drop the least recently used entry. Running sequences are never preempted.

A request here: a prompt starts from the longest cached prefix of its domain: in its own slot, in another, even a busy
one (if a copy pays off), in main memory (`hostcache`) or on disk (`tiers`). If a running sequence is computing the
prefix, the prompt waits for it. Admission returns small operations (`operations`); `KvCache` is the only writer, and
records what each slot holds. Tokens that a slot is about to lose go to main memory; idle slots, and all at an unload,
go to disk (`writeback`). llama.cpp moves a copy's cells at the next decode, so nothing is restored into a slot before
it was copied from (`pending_copies`). In a unified cache an entering sequence reserves all cells it may need
(`unified_cells`).
Knows no requests. Begin with `kvcache`.
"""
