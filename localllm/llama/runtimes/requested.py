"""Which llama.cpp to load with which backends, from the settings for runtime, devices and other machines.

Knows nothing of models.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from localllm.llama import backends, library
from localllm.llama.library import Library
from localllm.llama.probes import selftest
from localllm.llama.probes.selftest_memory import Outcome
from localllm.llama.runtimes.found import AUTO
from localllm.types.rpc_endpoints import parse_endpoints


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of these names."""

    runtime: str = AUTO
    plugin_dir: Path | None = None
    devices: tuple[str, ...] = ()
    rpc: str | None = None
    gpus: bool = False
    """Whether layers have to be on a GPU, whichever it is."""
    architecture: str = ""
    """Of the model; empty: of no particular one."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Which of `backends.BACKENDS` are needed."""
        return backends.needed(self.devices, rpc=bool(self.rpc))

    def choose(self, data_dir: Path, *, fresh: bool = False) -> Outcome:
        """The runtime and CPU backend to use. Raises `LoadFailed`."""
        lacking = backends.missing(self.needs, self.plugin_dir)
        return selftest.choose(
            data_dir,
            runtime=self.runtime,
            needs=lacking,
            gpus=self.gpus and self.plugin_dir is None,
            architecture=self.architecture,
            fresh=fresh,
        )

    def load(self, outcome: Outcome, *, verbose: bool) -> Library:
        """Load it into this process. Raises `LoadFailed`, `InvalidParameter`."""
        return library.load(
            outcome.choice,
            plugin_dir=self.plugin_dir,
            needs=self.needs,
            servers=parse_endpoints(self.rpc),
            verbose=verbose,
        )
