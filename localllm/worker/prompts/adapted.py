"""Which adapters a prompt is computed under, and from where: an activated one (aLoRA) begins at its invocation tokens.

A prompt that has none of these is computed without that adapter, as in llama-server, and a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from localllm.engine.requests.activation import Activation, activation
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, ScaledAdapter, adapter_set
from localllm.errors import InvalidParameter
from localllm.types import AppliedAdapter


class Adapted(NamedTuple):
    """What a prompt is computed under."""

    adapters: AdapterSet = NO_ADAPTERS
    activation: Activation | None = None
    shared: AdapterSet = NO_ADAPTERS
    """Those that work from the beginning, which its domain is made of."""


def adapted(applied: Sequence[AppliedAdapter], prompt: Sequence[int]) -> Adapted:
    """For a prompt of these tokens. Raises `InvalidParameter` for several activated adapters."""
    activated = {each.digest: each.invocation for each in applied if _is_activated(each)}
    if len(activated) > 1:
        raise InvalidParameter(
            f"{len(activated)} of the adapters work behind invocation tokens of their own (aLoRA); at most one can",
            param="adapters",
        )
    others = [_scaled(each) for each in applied if not _is_activated(each)]
    whole, shared = adapter_set(map(_scaled, applied)), adapter_set(others)
    for invocation in activated.values():
        found = activation(prompt, invocation, shared, whole)
        return Adapted(shared if found is None else whole, found, shared)
    return Adapted(whole, None, whole)


def notes_on(applied: Sequence[AppliedAdapter], activation: Activation | None) -> tuple[str, ...]:
    """What the client should know about its adapters."""
    if activation is not None or not any(map(_is_activated, applied)):
        return ()
    return ("adapters: the activated adapter (aLoRA) did not work: its invocation tokens are not in the prompt",)


def _is_activated(adapter: AppliedAdapter) -> bool:
    return bool(adapter.invocation and adapter.scale)


def _scaled(adapter: AppliedAdapter) -> ScaledAdapter:
    return ScaledAdapter(adapter.digest, adapter.scale, adapter.layers)
