"""Results of `localllm doctor`, as plain data between the child that examines and the command that reports.

Knows neither llama.cpp nor how a report is printed. `--json` prints a `Report` as it is, so its fields are public.
"""

from __future__ import annotations

import msgspec

from localllm.types import DeviceInfo


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The request to the child."""

    data_dir: str
    runtime: str
    plugin_dir: str | None
    devices: tuple[str, ...]
    rpc: str | None
    gpus: bool
    """Whether layers have to be on a GPU, whichever it is."""
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
    """For the tiny bundled model on one thread: only for comparing candidates."""
    decode_tokens_per_s: float


class RuntimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A llama.cpp found on this machine."""

    name: str
    origin: str
    """package, wheel, built or added."""
    version: str
    llama_cpp: str
    """The version of llama.cpp: `0.6 (b11549)`."""
    kind: str
    """cpu, vulkan, cuda ..."""
    why_not: str
    """Why it cannot be used; empty: no problem is known."""
    is_last: bool
    """Whether `auto` tries every other one first, since no device of this one was faster than the CPU."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known so far; the child sends one after each stage, and the last one counts."""

    works: bool = False
    """Whether a model can be loaded: a CPU backend passed, and every requested plugin is there."""
    error: str | None = None
    localllm: str
    python: str
    platform: str
    cpu: str
    package_version: str | None = None
    """Version of llama-cpp-python; other facts of the build follow."""
    llama_version: str | None = None
    commit: str | None = None
    library_path: str | None = None
    fingerprint: str | None = None
    runtimes: tuple[RuntimeRow, ...] = ()
    """Runtimes found on this machine."""
    cpu_variants: tuple[str, ...] = ()
    """Loadable CPU backends found; none in a plain build."""
    candidates: tuple[Candidate, ...] = ()
    used: str | None = None
    remembered: bool = False
    """Whether the self-test's outcome is from an earlier run, stored in `memory_path`."""
    memory_path: str | None = None
    not_stored: str | None = None
    """Why the outcome could not be stored there: a sentence with the remedy."""
    features: dict[str, list[str]] = {}
    devices: tuple[DeviceInfo, ...] = ()
    sampler_missing: str | None = None
    """Why tokens are sampled in slow Python; None: localllm's compiled sampler is used."""
    grammars_missing: str | None = None
    """Why no answer can be held to a schema or grammar; None: answers can be."""
    generic_formats: dict[str, str] | None = None
    """Models with the generic chat format or not examinable, each with the reason; None: not examined."""
    tunings: tuple[str, ...] = ()
    """Results of `localllm tune`, one sentence per model, including damaged ones."""
    plugin_dir: str | None = None
    plugins: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    """What the runtime in use cannot do."""
    absent: tuple[str, ...] = ()
    """Why backends of this build do not load here, one sentence each."""
    advice: str | None = None
    command: str | None = None
    """The command that follows the advice."""
