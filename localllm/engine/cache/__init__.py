"""What is in the KV cache and the tiers below it: slots, main memory, the disk.

    slots  --save-->  main memory  --store-->  disk        save: a slot's state becomes an entry; store: a file
    slots  <-restore- main memory  <--load---  disk        load: a file becomes an entry; restore: an entry, a slot's KV

An *entry* is what one slot held: tokens, domain, state, checkpoints. A *state* is a slot's KV as the backend packs it.
A *checkpoint* is the part of a state that a memory that cannot drop its tail needs to go back to one position. To
*evict* is to drop the least recently used entry. Running sequences are never preempted.
"""
