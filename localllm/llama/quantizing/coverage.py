"""Whether an importance matrix covers a model: which tensors it has no data for, and which of them cannot do without.

Knows nothing of files and of llama.cpp's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from localllm.errors import InvalidModelFile, InvalidParameter
from localllm.gguf import TensorInfo
from localllm.llama.quantizing.imatrix import Importance
from localllm.types.quantization import Job

WITHOUT_IMPORTANCE = frozenset({"F32", "F16", "BF16", "Q8_0", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0"})
"""Types whose conversion ignores an importance matrix."""
ONLY_WITH_IMPORTANCE = frozenset({"IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S"})
"""Types to which llama.cpp converts no tensor without data, besides Q2_K in Q2_K_S: `tensor_requires_imatrix`."""
MAX_NAMED = 5
"""Tensors in a notice."""


def check_coverage(path: Path, importance: Mapping[str, Importance], tensors: Sequence[TensorInfo]) -> None:
    """Raises `InvalidModelFile` for a matrix of another model."""
    of_both = [tensor for tensor in tensors if tensor.name in importance]
    if not of_both:
        raise InvalidModelFile(f"{path} belongs to another model: it has data of none of its tensors", path=str(path))
    for tensor in of_both:
        num_columns = tensor.dims[0] * prod(tensor.dims[2:3])
        num_values = importance[tensor.name].values.size
        if num_values != num_columns and not _has_no_data(tensor.name):
            raise InvalidModelFile(
                f"{path} belongs to another model: it has {num_values:,} values for {tensor.name}, which has "
                f"{num_columns:,} columns",
                path=str(path),
            )


def _has_no_data(name: str) -> bool:
    """Whether llama-imatrix measures such a tensor only if told to; llama.cpp never requires its data."""
    return "token_embd" in name or name == "output.weight"


def gaps(job: Job, importance: Mapping[str, Importance], types: Mapping[str, str]) -> Iterator[str]:
    """What to note of a matrix without data for some of the tensors that are converted to these types.

    Raises `InvalidParameter` if one of these types cannot do without.
    """
    used = [name for name, kind in types.items() if kind not in WITHOUT_IMPORTANCE and not _has_no_data(name)]
    lacking = [name for name in used if name not in importance]
    needed = ONLY_WITH_IMPORTANCE | ({"Q2_K"} if job.type == "Q2_K_S" else frozenset())
    refused = [name for name in lacking if types[name] in needed]
    if refused:
        raise InvalidParameter(
            f"{job.imatrix} has no data for {_some(refused)}, and {job.type} needs them; make the matrix with more "
            "text, or choose a larger type",
            param="imatrix",
        )
    if lacking:
        yield f"{job.imatrix} has no data for {_some(lacking)} of {len(used):,}: all their columns count equally"
    if not used:
        yield f"{job.type} uses no importance matrix: {job.imatrix} changes nothing"
    unseen = {name: one for name in used if (one := importance.get(name)) is not None and one.num_unseen}
    if unseen:
        num_unseen, num_experts = (
            sum(each) for each in zip(*((one.num_unseen, one.num_experts) for one in unseen.values()), strict=True)
        )
        yield (
            f"{job.imatrix} has no data for {num_unseen:,} of {num_experts:,} experts in {_some(list(unseen))}: all "
            "their columns count equally"
        )


def _some(names: Sequence[str]) -> str:
    """Their number and the first ones."""
    more = "" if len(names) <= MAX_NAMED else ", ..."
    return f"{len(names):,} tensor{'s' if len(names) > 1 else ''} ({', '.join(names[:MAX_NAMED])}{more})"
