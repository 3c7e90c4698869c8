"""What `localllm doctor` finds out, as plain data between the child that looks and the command that tells.

Knows neither llama.cpp nor how a report is printed. `--json` prints a `Report` as it is, so its fields are public.
"""

from __future__ import annotations

import msgspec

from localllm.types import DeviceInfo


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked."""

    data_dir: str
    runtime: str
    plugin_dir: str | None
    devices: tuple[str, ...]
    rpc: str | None
    fresh: bool
    verbose: bool


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A CPU backend or setting that the self-test tried."""

    label: str
    result: str
    """ok, died, hung, wrong or failed."""
    detail: str
    seconds: float
    prefill_tokens_per_s: float
    """Of the tiny carried model on one thread: compare candidates by it, nothing else."""
    decode_tokens_per_s: float


class RuntimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A llama.cpp that is here."""

    name: str
    origin: str
    """package, wheel, built or added."""
    version: str
    kind: str
    """cpu, vulkan, cuda ..."""
    why_not: str
    """Why it cannot be used; empty: nothing is known against it."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known so far; the child sends one after each stage, the last one counts."""

    works: bool = False
    """A model can be loaded: a CPU backend passed, and every plugin asked for is there."""
    error: str | None = None
    localllm: str
    python: str
    platform: str
    cpu: str
    package_version: str | None = None
    """Of llama-cpp-python; the build's other facts follow."""
    llama_version: str | None = None
    commit: str | None = None
    library_path: str | None = None
    fingerprint: str | None = None
    runtimes: tuple[RuntimeRow, ...] = ()
    """That are here."""
    cpu_variants: tuple[str, ...] = ()
    """Loadable CPU backends found; none in a plain build."""
    candidates: tuple[Candidate, ...] = ()
    used: str | None = None
    remembered: bool = False
    """The self-test's outcome is from an earlier run, kept in `memory_path`."""
    memory_path: str | None = None
    features: dict[str, list[str]] = {}
    devices: tuple[DeviceInfo, ...] = ()
    sampler_missing: str | None = None
    """Why tokens are drawn in slow Python; None: localllm's compiled sampler does it."""
    grammars_missing: str | None = None
    """Why no answer can be held to a schema or grammar; None: it can."""
    generic_formats: dict[str, str] | None = None
    """Models whose chat format is the generic one, or that cannot be looked at, and why; None: nobody looked."""
    tunings: tuple[str, ...] = ()
    """What `localllm tune` found for models, in words, and what of it is damaged."""
    plugin_dir: str | None = None
    plugins: tuple[str, ...] = ()
    advice: str | None = None
    command: str | None = None
    """What to type to follow the advice."""
