"""Whether a Gemma 4 assistant can read the keys and values of a model. Pure functions of headers and options."""

from __future__ import annotations

from localllm.gguf.rules.draft_heads import TARGET
from localllm.types import DraftHead, ModelInfo, ReadKeys
from localllm.types.load_options import LoadOptions

MADE_FOR = "use the draft that was made for this model, or remove draft"


def misfit(info: ModelInfo, options: LoadOptions, draft: ModelInfo, head: DraftHead) -> str:
    """Why it cannot guess for this model, after its name; empty: it can. llama.cpp checks none of this: it would end
    the process, or read outside of the model's memory."""
    if info.architecture != TARGET or info.shared_keys is None or head.reads is None:
        return f"reads the keys and values of a Gemma 4 model, and this one is {info.architecture}; {MADE_FOR}"
    if head.width != info.embedding_length:
        return (
            f"guesses from vectors of {head.width} numbers, and this model's have {info.embedding_length}; {MADE_FOR}"
        )
    for name, wanted, given in (
        ("last layer that sees all tokens", head.reads.full, info.shared_keys.full),
        ("last layer with a window", head.reads.windowed, info.shared_keys.windowed),
    ):
        if wanted is not None and wanted != given:
            return f"reads {_text(wanted)} of the {name}, and this model has {_text(given)} there; {MADE_FOR}"
    if draft.sliding_window > info.sliding_window:
        return f"looks {draft.sliding_window:,} tokens back, and this model {info.sliding_window:,}; {MADE_FOR}"
    if draft.vocabulary_size != info.vocabulary_size:
        return f"knows {draft.vocabulary_size:,} tokens, and this model has {info.vocabulary_size:,}; {MADE_FOR}"
    if options.split in ("row", "tensor"):
        return (
            f"reads the model's keys and values, which split {options.split} divides; leave out split, or remove draft"
        )
    return ""


def _text(keys: ReadKeys | None) -> str:
    return "none" if keys is None else f"keys of {keys.heads} heads with {keys.size} numbers"
