"""What `localllm tune` found to be fastest for a model here: stored in the data directory, looked up at a load.

    tuned/<model>.json    a file per model, by its content; in it one tuning for each library, devices and settings

A tuning applies if everything is as it was when measured; otherwise a load uses its settings alone and says why. Only
settings that the user has left open are ever changed. Knows nothing of how they are measured.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, naming
from localllm.measuring.conditions import Conditions, cpu_digest
from localllm.system import cpu as system_cpu
from localllm.system import files
from localllm.types import DeviceInfo
from localllm.types.declared import declared
from localllm.types.load_options import LoadOptions

logger = logging.getLogger("localllm")

FOLDER = "tuned"
"""Below the data directory."""
MAX_TUNINGS = 16
"""Per model; beyond that the oldest is dropped."""
MAX_FILE_BYTES = 256 * 1024
PROBE_BYTES = 4096
HEAD_BYTES = 1024 * 1024
"""Bytes of a model's file that, with its size, stand for all of it."""
WITHOUT_EFFECT = frozenset(
    {"grammar", *(name for name, field in declared(LoadOptions).items() if not field.setting.affects_speed)}
)
"""Fields of `LoadOptions` that a tuning does not depend on; the context is checked separately."""
AS_TUNED = "as `localllm tune` found to be faster"
"""The reason reported for a tuned setting."""
REMEDY = "`localllm tune --forget` removes it"


class Values(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Values for fields of `LoadOptions` that were left to localllm; None: as without a tuning."""

    threads: int | None = None
    threads_batch: int | None = None
    ubatch: int | None = None
    flash_attn: Literal["on", "off"] | None = None
    repack: Literal["on", "off"] | None = None
    speculation: Literal["auto", "off"] | None = None
    mtp: Literal["auto", "off"] | None = None
    gpu_layers: int | None = None

    def given(self) -> dict[str, Any]:
        """Those that are not None."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}

    def applied(self, options: LoadOptions) -> LoadOptions:
        """The options with these values. Raises `InvalidParameter` for values that no load can have."""
        return msgspec.structs.replace(options, **self.given())

    def words(self) -> str:
        """`ubatch 1024, flash_attn off`; without values `as by default`."""
        return ", ".join(f"{name} {value}" for name, value in self.given().items()) or "as by default"


class Place(Conditions, frozen=True, kw_only=True):
    """The conditions under which a tuning applies."""

    cores: int
    devices: tuple[str, ...] = ()
    """GPUs, each with its description."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The winner, and what it was compared with."""

    model: str
    """Its name when it was tuned."""
    place: Place
    base: dict[str, Any]
    """The settings at that time that affect speed: see `base_of`."""
    ctx: int
    """Tokens of a slot at that time."""
    values: Values
    """Empty if nothing was faster than the default."""
    gain: float = 1.0
    """Speed with these values relative to speed without, in the last check; `noise`: its possible error."""
    noise: float = 0.0
    prompt_tokens_per_s: float = 0.0
    answer_tokens_per_s: float = 0.0
    created_unix_s: int = 0

    def story(self) -> str:
        """A description for people."""
        day = time.strftime("%Y-%m-%d", time.gmtime(self.created_unix_s))
        if not self.values.given():
            return f"as by default: nothing was faster on {day}"
        return f"{self.values.words()}: {self.gain:.2f} x as fast as the default on {day}"


class Match(NamedTuple):
    """The tuning for a load, if one applies."""

    tuning: Tuning | None
    why_not: str = ""
    """Why none of the existing ones applies; empty if there are none."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Fields of the options that it sets."""
        return () if self.tuning is None else tuple(self.tuning.values.given())

    def applied(self, options: LoadOptions) -> LoadOptions:
        """The options to use."""
        return options if self.tuning is None else self.tuning.values.applied(options)

    def story(self) -> str:
        """A description for people; empty if the model was never tuned."""
        if self.tuning is not None:
            return self.tuning.story()
        return f"not used: {self.why_not}" if self.why_not else ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tunings: list[Tuning] = []
    """Oldest first."""


def place_of(*, library: str, backend: str, devices: Sequence[DeviceInfo]) -> Place:
    """This machine with that library."""
    return Place(
        cpu=cpu_digest(),
        cores=system_cpu.num_physical_cores(),
        library=library,
        backend=backend,
        devices=tuple(f"{device.name}: {device.description}" for device in devices if device.kind != "cpu"),
    )


def base_of(options: LoadOptions) -> dict[str, Any]:
    """The settings that affect speed, except those at their defaults."""
    built: dict[str, Any] = msgspec.to_builtins(options)
    return {name: value for name, value in built.items() if name not in WITHOUT_EFFECT}


def match(tunings: Sequence[Tuning], place: Place, options: LoadOptions, ctx: int) -> Match:
    """The newest tuning that applies to a load with these options and slots of `ctx` tokens."""
    base, why_not = base_of(options), ""
    for tuning in reversed(tunings):
        why_not = why_not or _why_not(tuning, place, base, ctx)
        if not _why_not(tuning, place, base, ctx):
            return Match(tuning)
    return Match(None, why_not)


def possible(tunings: Sequence[Tuning], options: LoadOptions) -> list[LoadOptions]:
    """Everything `match` may make of these options, whatever the library and the devices are."""
    base = base_of(options)
    return [options, *(tuning.values.applied(options) for tuning in tunings if tuning.base == base)]


def _why_not(tuning: Tuning, place: Place, base: dict[str, Any], ctx: int) -> str:
    """Why the tuning does not apply; empty if it does."""
    was = tuning.place
    if was.backend != place.backend:
        return f"it was tuned with {was.backend}, and this is {place.backend}"
    if was.library != place.library:
        return "it was tuned with another build of llama.cpp"
    if (was.cpu, was.cores) != (place.cpu, place.cores):
        return "it was tuned on another CPU"
    if was.devices != place.devices:
        return "it was tuned with other devices"
    if was.version != place.version:
        return f"it was tuned with localllm {was.version}"
    if tuning.base != base:
        different = sorted(name for name in {*tuning.base, *base} if tuning.base.get(name) != base.get(name))
        return f"it was tuned with other settings ({', '.join(different)})"
    if tuning.values.flash_attn is not None and ctx > tuning.ctx:
        return f"it was tuned with slots of {tuning.ctx:,} tokens, and these have {ctx:,}"
    return ""


def identity(path: Path) -> str:
    """Identifies a model by its content, wherever its file is: 32 digits. Takes a millisecond. Raises `OSError`."""
    with open(files.open_plain(path.resolve(), os.O_RDONLY), "rb") as file:
        digest = hashlib.blake2b(str(os.fstat(file.fileno()).st_size).encode(), digest_size=16)
        digest.update(file.read(HEAD_BYTES))
    return digest.hexdigest()


class TuningFile(NamedTuple):
    """A file of tunings."""

    path: Path
    tunings: tuple[Tuning, ...]
    damage: str = ""
    """Why it cannot be read."""


class Tunings:
    """The tunings of a data directory. Reads and writes files, so do not call it on an event loop."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def of(self, path: Path) -> tuple[Tuning, ...]:
        """Tunings of the model in this file, oldest first. A damaged file of ours is logged and ignored."""
        if not self._folder.is_dir():
            return ()
        kept = self.kept(path)
        if kept.damage:
            logger.warning("%s", damaged(kept))
        return kept.tunings

    def kept(self, path: Path) -> TuningFile:
        """The file of that model's tunings, with any damage, which is not logged. Raises `OSError`."""
        return _read(self.file_of(path))

    def every(self) -> Iterator[TuningFile]:
        """All files, including damaged ones."""
        if self._folder.is_dir():
            yield from map(_read, sorted(self._folder.glob("*.json")))

    def check_writable(self) -> None:
        """Raises `OSError` if nothing can be kept, so that it is known before minutes of measuring. Leaves nothing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with naming(self._folder), tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(bytes(PROBE_BYTES))
        finally:
            with suppress(OSError):  # it holds other tunings
                self._folder.rmdir()

    def keep(self, path: Path, tuning: Tuning) -> None:
        """Replaces an earlier tuning with the same library, devices and settings. Raises `OSError`."""
        file = self.file_of(path)
        there = [other for other in _read(file).tunings if (other.place, other.base) != (tuning.place, tuning.base)]
        content = _File([*there, tuning][-MAX_TUNINGS:])
        files.write_whole(file, msgspec.json.format(msgspec.json.encode(content)))

    def file_of(self, path: Path) -> Path:
        """The file for tunings of the model in this file. Raises `OSError`."""
        return self._folder / f"{identity(path)}.json"


def damaged(kept: TuningFile) -> str:
    """For people: what is wrong, and the remedy."""
    return f"a tuning is damaged and not used ({kept.path}: {kept.damage}); {REMEDY}"


def forget(kept: TuningFile) -> int:
    """Remove that file; returns the number of tunings, counting a damaged file as one. Raises `OSError`."""
    kept.path.unlink(missing_ok=True)
    return len(kept.tunings) or int(bool(kept.damage))


def _read(path: Path) -> TuningFile:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return TuningFile(path, (), "it is too large")
        found = msgspec.json.decode(path.read_bytes(), type=_File)
        for tuning in found.tunings:
            tuning.values.applied(msgspec.convert(tuning.base, LoadOptions))
    except FileNotFoundError:
        return TuningFile(path, ())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, InvalidParameter) as error:
        return TuningFile(path, (), str(error))
    return TuningFile(path, tuple(found.tunings))
