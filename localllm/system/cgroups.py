"""CPU and memory limits of a container, read from Linux control groups (versions 1 and 2).

Limits apply from every group between this process's own and the root, so the smallest one counts. Inside a container,
the mount often begins at the container's own group, whatever path /proc/self/cgroup gives: then that group counts.
Every function takes the root of the file system, so that tests can pass a fake one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
MOST_GROUPS = 64
"""No real path is nested deeper; bounds a fake one."""
UNLIMITED = 1 << 62
"""Version 1 expresses "no limit" by a number near 2^63."""


class _Group(NamedTuple):
    folder: Path
    version: int


class Memory(NamedTuple):
    """A limit, and the memory that is free below it."""

    limit_bytes: int
    free_bytes: int
    """Page cache counts as free, because the kernel reclaims it on demand."""


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that this process may use, e.g. 1.5; None: no limit, or no control groups."""
    quotas = [quota for group in _groups(root, "cpu") if (quota := _quota(group)) is not None]
    return min(quotas, default=None)


def threads_within(cores: int, root: Path = ROOT) -> int:
    """How many of these cores the CPU quota can keep busy, at least 1. More threads would wait for each other."""
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def memory(root: Path = ROOT) -> Memory | None:
    """The smallest limit of any group, and the least free memory of any; None: no limit, or no control groups."""
    found = [each for group in _groups(root, "memory") if (each := _memory(group)) is not None]
    if not found:
        return None
    return Memory(min(each.limit_bytes for each in found), min(each.free_bytes for each in found))


def _groups(root: Path, controller: str) -> Iterator[_Group]:
    """The folders of this process's group and of its visible ancestors, for that controller."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
        mounts = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = [*line.split(":", 2), "", ""][:3]
        version = 2 if not names else 1
        if version == 1 and controller not in names.split(","):
            continue
        for mounted in mounts:
            where = _mount(mounted, version, controller)
            if where is not None:
                yield from _upwards(root / where.point.lstrip("/"), where.base, path, version)


class _Mount(NamedTuple):
    base: str
    """The group at the mount's root."""
    point: str


def _mount(line: str, version: int, controller: str) -> _Mount | None:
    """Parse a line of mountinfo (proc(5)); None unless it mounts that controller's groups."""
    first, _, second = line.partition(" - ")
    fields, rest = first.split(), second.split()
    if len(fields) < 5 or len(rest) < 3:
        return None
    if rest[0] != ("cgroup2" if version == 2 else "cgroup"):
        return None
    if version == 1 and controller not in rest[2].split(","):
        return None
    return _Mount(_unescaped(fields[3]), _unescaped(fields[4]))


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _upwards(point: Path, base: str, path: str, version: int) -> Iterator[_Group]:
    """From the process's group up to the mount's root."""
    below = path.removeprefix(base.rstrip("/")) if path.startswith(base) else path
    parts = [part for part in below.split("/") if part not in ("", ".", "..")][:MOST_GROUPS]
    for count in range(len(parts), -1, -1):
        folder = point.joinpath(*parts[:count])
        if folder.is_dir():
            yield _Group(folder, version)


def _quota(group: _Group) -> float | None:
    if group.version == 2:
        words = _text(group.folder / "cpu.max").split()
    else:
        words = [_text(group.folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota_us, period_us = map(int, words)
    except ValueError:  # "max", or missing
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None  # -1: no limit


def _memory(group: _Group) -> Memory | None:
    if group.version == 2:
        limits = [_number(group.folder / name) for name in ("memory.max", "memory.high")]
        used = _number(group.folder / "memory.current")
        caches = ("inactive_file", "active_file")
    else:
        limits = [_number(group.folder / "memory.limit_in_bytes")]
        used = _number(group.folder / "memory.usage_in_bytes")
        caches = ("total_inactive_file", "total_active_file")
    known = [limit for limit in limits if limit is not None and limit < UNLIMITED]
    if not known or used is None:
        return None
    statistics = dict(line.split(" ", 1) for line in _text(group.folder / "memory.stat").splitlines() if " " in line)
    cached = sum(int(number) for name in caches if (number := statistics.get(name, "0")).isdecimal())
    limit = min(known)
    return Memory(limit, max(0, limit - max(0, used - cached)))


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:  # missing, or the word "max"
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
