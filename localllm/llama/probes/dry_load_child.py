"""`python -m localllm.llama.probes.dry_load_child`: a `DryQuestion` in, a `DryAnswer` out, or a crash.

Loads a model without its weights, on the CPU alone, and reads in llama.cpp's log how large everything else would be.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from localllm.errors import LoadFailed, LocalLLMError
from localllm.llama import library, log_text
from localllm.llama.library import Library
from localllm.llama.probes import selftest
from localllm.measuring import probe
from localllm.planning.dry_loads import DryAnswer, DryQuestion


def reply(question: DryQuestion, send: probe.Send) -> None:
    """Answers the one question."""
    try:
        outcome = selftest.choose(Path(question.data_dir), architecture=question.architecture)
        send(_sizes(library.load(outcome.choice), question))
    except LocalLLMError as error:
        send(DryAnswer(error=error.message))


def _sizes(loaded: Library, question: DryQuestion) -> DryAnswer:
    api, mark = loaded.api, loaded.log.mark()
    params = api.llama_model_default_params()
    handles = loaded.device_handles([])
    params.devices = ctypes.cast(handles, ctypes.c_void_p)
    params.n_gpu_layers, params.load_mode, params.no_alloc = 0, api.LLAMA_LOAD_MODE_NONE, True
    model = api.llama_model_load_from_file(question.path.encode(), params)
    if not model:
        raise LoadFailed(f"it does not load without weights: {loaded.log.errors_since(mark)}")
    found = [_context(loaded, model, ctx, question.ubatch) for ctx in question.contexts]
    api.llama_model_free(model)
    return DryAnswer(kept=tuple(kept for kept, _ in found), computed=tuple(computed for _, computed in found))


def _context(loaded: Library, model: Any, ctx: int, ubatch: int) -> tuple[int, int]:
    api, mark = loaded.api, loaded.log.mark()
    params = api.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = ctx, ubatch, ubatch, 1
    params.n_outputs_max = 1
    context = api.llama_init_from_model(model, params)
    if not context:
        raise LoadFailed(f"no context can be laid out: {loaded.log.errors_since(mark)}")
    sizes = log_text.laid_out(loaded.log.lines_since(mark))
    api.llama_free(context)
    return sizes


if __name__ == "__main__":
    probe.serve(DryQuestion, reply)
