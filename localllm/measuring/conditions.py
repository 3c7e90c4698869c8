"""The conditions under which a measurement of this machine applies, and the key made of them. Knows no measurement."""

from __future__ import annotations

import hashlib

import msgspec

from localllm import __version__
from localllm.system import cpu as system_cpu


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the llama.cpp that computes on it."""

    cpu: str
    """A digest of `system.cpu.cpu_model`."""
    library: str
    """Fingerprint of its files."""
    backend: str
    """From `CpuChoice.label`: `built-cpu: zen4`. For a self-test, which chooses the backend, the runtime's name."""
    version: str = __version__

    def key(self, *what: str) -> str:
        """A short digest of the conditions and of what is measured, with everything else that it depends on."""
        parts = (self.cpu, self.library, self.backend, self.version, *what)
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def cpu_digest() -> str:
    """Identifies this CPU."""
    return hashlib.blake2b(system_cpu.cpu_model().encode(), digest_size=8).hexdigest()


def conditions_here(*, library: str, backend: str) -> Conditions:
    """This machine with that library."""
    return Conditions(cpu=cpu_digest(), library=library, backend=backend)
