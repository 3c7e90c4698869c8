"""Decides which sequence computes which tokens next, and carries it out. Token ids in, text and log-probabilities out.

Knows no llama.cpp, no processes and no HTTP: the arithmetic is a `Backend` (`backend`), which tests fake. Runs on one
thread. Begin with `building`, which makes the parts: `engine` takes requests, `cycle` runs one step after the other,
`planning` decides it, `stepping` computes it. A `sequence` is a request, its progress and its drawing state.

A request here: it arrives in the `inbox` with its tokens and enters the free slot where it costs least
(`scheduling/`), starting from the longest cached prefix (`cache/`). A step gives streams their next tokens, and
prompts as many as fit beside them into `prefill_step_ms`; on a CPU where nothing streams, whole batches, which an
arrival interrupts. Sources propose further tokens (`speculation/proposers`): a grammar forces them, `speculation/`
guesses them. `stepping` makes one decode; if it fails, each sequence is decoded alone, so that only the culprit
fails. Each sequence that has caught up draws a token (`sampling/`), from those that its grammar allows
(`constraint/`); a guess is accepted if the draw equals it. `answers/text` turns bytes into whole characters and holds
back stop strings. `threads/` chooses how many cores the next step uses. Rows of pictures and sounds (`media`, `spans`)
stand among the tokens as negative ids and have steps of their own (`scheduling/media_steps`).
"""
