"""Which ways of loading a model are worth measuring: one setting changed at a time. A pure function.

A setting is changed only if the user has not set it. Settings that change answers by more than rounding (the type of
the KV cache) are measured only on request, and suggested, never applied automatically.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from localllm.planning.tuned import Values
from localllm.types import KvType, LoadedModel
from localllm.types.load_options import DEFAULT_UBATCH, LoadOptions

UBATCHES = (1024, 256, 2048)
"""In the order in which they are tried."""


class Machine(NamedTuple):
    """What is known of the machine once the model is loaded with defaults."""

    usable_cpus: int
    """Counts every hardware thread."""
    uses_gpus: bool
    """Whether some of the model's layers are on GPUs."""
    repacks: bool
    """Whether the library repacks weights as it loads them."""


class Candidate(NamedTuple):
    """One way of loading."""

    setting: str
    """The setting that is changed; several are separated by commas."""
    values: Values
    kv_type: KvType | None = None
    """Another type of KV cache, which is only ever suggested."""

    @property
    def words(self) -> str:
        """`ubatch 1024`."""
        return self.values.words() if self.kv_type is None else f"kv_type {self.kv_type}"

    @property
    def guesses(self) -> bool:
        """Whether it concerns guessed tokens, so that runs with guesses are measured too."""
        return self.values.speculation is not None or self.values.mtp is not None

    def applied(self, options: LoadOptions) -> LoadOptions:
        """The options with this change. Raises `InvalidParameter`."""
        options = self.values.applied(options)
        return options if self.kv_type is None else msgspec.structs.replace(options, kv_type=self.kv_type)


DEFAULT = Candidate("", Values())


def candidates(
    options: LoadOptions, loaded: LoadedModel, machine: Machine, *, deepest: int, kv: bool = False
) -> list[Candidate]:
    """Most promising first. `loaded`: the model loaded with `options`; `deepest`: tokens of the longest prompt."""
    found: list[Candidate] = []
    on_cpu = sum(count for device, count in loaded.layers_per_device.items() if device.startswith("CPU"))
    if machine.uses_gpus and options.gpu_layers == "auto":
        found += [_one("gpu_layers", layers) for layers in _layers(loaded, on_cpu)]
    if options.flash_attn == "auto" and options.kv_type == "f16" and loaded.kv == "partitioned":
        found.append(_one("flash_attn", "off" if loaded.flash_attn == "on" else "on"))
    if options.ubatch is None:
        found += [_one("ubatch", rows) for rows in UBATCHES if rows < 2 * max(deepest, DEFAULT_UBATCH)]
    if on_cpu and options.threads_batch is None:
        found += [_one("threads_batch", count) for count in _batch_threads(loaded.threads, machine.usable_cpus)]
    if on_cpu and options.threads is None:
        # For answers only: prompts have a setting of their own.
        for count in _threads(loaded.threads, machine.usable_cpus):
            found.append(Candidate("threads", Values(threads=count, threads_batch=loaded.threads_batch)))
    if on_cpu and machine.repacks and options.repack == "auto" and not options.mlock:
        found.append(_one("repack", "off"))
    if options.speculation == "auto" and loaded.speculation == "auto":
        if options.draft is None:  # whoever sets a draft wants guesses, and no load takes it without
            found.append(_one("speculation", "off"))
        if options.mtp == "auto" and "mtp" in loaded.sources:
            found.append(_one("mtp", "off"))
    if kv and options.kv_type == "f16" and loaded.flash_attn == "on":
        found.append(Candidate("kv_type", Values(), "q8_0"))
    return found


def combined(winners: list[Candidate]) -> Candidate:
    """One candidate with the changes of all; each changes a different setting."""
    given = {name: value for winner in winners for name, value in winner.values.given().items()}
    given |= {winner.setting: winner.values.given()[winner.setting] for winner in winners}
    return Candidate(", ".join(winner.setting for winner in winners), msgspec.convert(given, Values))


def _one(setting: str, value: object) -> Candidate:
    return Candidate(setting, msgspec.convert({setting: value}, Values))


def _layers(loaded: LoadedModel, on_cpu: int) -> list[int]:
    """Numbers of layers on GPUs to measure: none, since integrated GPUs may be slower than the CPU; and half as many as
    now, if not all fit."""
    offloaded = sum(loaded.layers_per_device.values()) - on_cpu
    return [0, offloaded // 2] if on_cpu > 1 and offloaded > 1 else [0]


def _batch_threads(threads: int, usable: int) -> list[int]:
    """Counts to measure for prompts: these may gain from hardware threads or, on unequal cores, from fewer threads."""
    return [count for count in (usable, threads // 2) if count not in (0, threads) and (count > threads or threads > 3)]


def _threads(threads: int, usable: int) -> list[int]:
    """Counts to measure for answers. A running engine tries fewer threads (`engine.threads.trials`), never more."""
    return [count for count in (usable, threads // 2) if count not in (0, threads)]
