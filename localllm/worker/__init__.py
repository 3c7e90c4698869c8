"""One operating-system process per loaded model: the messages, their framing, the child's main, the parent's handle.

Knows no HTTP. A crash of native code costs one model's running requests. Begin with `messages`, the contract with the
parent, then `process`, the child's main, or `handle`, the parent's side.

A request here: the reader thread takes `Submit` from stdin. A preparer renders the template in a child process
(`prompts/template_child`: at most 1 s of CPU and 256 MB), tokenizes in turns of 20 ms, and replies `Accepted`, or
`Rejected` with the reason. `prompts/reworded` restores our own answers that a client sent back reworded.
`prompts/answer_shapes` derives the structure of the answer; a structure is checked and tried in a killable process
(`grammars/grammar_child`), then compiled for the vocabulary and cached (`grammars/constraints`). The engine's thread
computes; `outbox` sends `Deltas` on a thread of its own, while the next step is computed if GPUs hold all layers;
fast steps share one (`gathering`). End-of-file on stdin ends the process at once.
"""
