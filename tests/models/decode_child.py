"""`python -m tests.models.decode_child`: loads models with llama.cpp and tells what they gave, one job per line.

A job is {"path", "text", "mode": "decode" | "embed" | "rank", "adapter": path or null}; the answer has the memory
class, the tokens, the text they stand for and the numbers of the last row (logits, embedding or score).
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import numpy as np

from tests.models.native import load_library

_POOLING = {"decode": 0, "embed": 1, "rank": 4}


def main() -> None:
    library = load_library()
    for line in sys.stdin:
        job = json.loads(line)
        print(f"job {job['path']}", file=sys.stderr, flush=True)
        print(json.dumps(_run(library, job)), flush=True)


def _run(library: Any, job: dict[str, Any]) -> dict[str, Any]:
    params = library.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = False  # a stock build's AMX code crashes on some machines
    model = library.llama_model_load_from_file(job["path"].encode(), params)
    if not model:
        raise RuntimeError(f"llama.cpp does not load {job['path']}")
    context = _context(library, model, job["mode"])
    if job.get("adapter"):
        _apply_adapter(library, model, context, job["adapter"])
    tokens = _tokenize(library, model, job["text"])
    row = _row(library, model, context, tokens, job["mode"])
    answer = {
        "recurrent": bool(library.llama_model_is_recurrent(model)),
        "hybrid": bool(library.llama_model_is_hybrid(model)),
        "window": int(library.llama_model_n_swa(model)),
        "tokens": tokens,
        "text": _detokenize(library, model, tokens),
        "row": row,
    }
    library.llama_free(context)
    library.llama_model_free(model)
    return answer


def _context(library: Any, model: Any, mode: str) -> Any:
    params = library.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 256, 256, 256
    params.n_threads = params.n_threads_batch = 1
    params.embeddings = mode != "decode"
    params.pooling_type = _POOLING[mode]
    context = library.llama_init_from_model(model, params)
    if not context:
        raise RuntimeError("llama.cpp makes no context")
    return context


def _apply_adapter(library: Any, model: Any, context: Any, path: str) -> None:
    adapter = library.llama_adapter_lora_init(model, path.encode())
    if not adapter:
        raise RuntimeError(f"llama.cpp does not load the adapter {path}")
    adapters = (library.llama_adapter_lora_p_ctypes * 1)(adapter)
    scales = (ctypes.c_float * 1)(1.0)
    if library.llama_set_adapters_lora(context, adapters, 1, scales) != 0:
        raise RuntimeError("llama.cpp does not take the adapter")


def _tokenize(library: Any, model: Any, text: str) -> list[int]:
    raw = text.encode()
    room = (library.llama_token * (len(raw) + 8))()
    count = library.llama_tokenize(library.llama_model_get_vocab(model), raw, len(raw), room, len(room), True, True)
    return list(room[:count])


def _detokenize(library: Any, model: Any, tokens: list[int]) -> str:
    """Pieces of the tokens but for control tokens."""
    vocab = library.llama_model_get_vocab(model)
    piece = ctypes.create_string_buffer(256)
    raw = b""
    for token in tokens:
        length = library.llama_token_to_piece(vocab, token, piece, len(piece), 0, False)
        raw += piece.raw[:length]
    return raw.decode(errors="replace")


def _row(library: Any, model: Any, context: Any, tokens: list[int], mode: str) -> list[float]:
    array = (library.llama_token * len(tokens))(*tokens)  # the batch only points at it
    result = library.llama_decode(context, library.llama_batch_get_one(array, len(tokens)))
    if result != 0:
        raise RuntimeError(f"llama_decode returned {result}")
    if mode == "decode":
        count = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        pointer = library.llama_get_logits_ith(context, -1)
    else:
        count = library.llama_model_n_embd(model) if mode == "embed" else library.llama_model_n_cls_out(model)
        pointer = library.llama_get_embeddings_seq(context, 0)
    row = np.ctypeslib.as_array(pointer, shape=(count,)).astype(float)
    if not np.isfinite(row).all():
        raise RuntimeError("the model gave numbers that are not finite")
    values: list[float] = row.tolist()
    return values


if __name__ == "__main__":
    main()
