"""What a container may use, read from systems made up in a folder; and what the rest makes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from localllm.system import cgroups, cpu
from localllm.system import memory as system_memory

MB = 2**20


class System:
    """A root with /proc and /sys/fs/cgroup."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file("proc/self/cgroup", "")
        self.file("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")

    def file(self, path: str, text: str | int) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{text}\n" if isinstance(text, int) else text)

    def version_2(self, path: str, *, base: str = "/", point: str = "/sys/fs/cgroup") -> None:
        self.file("proc/self/cgroup", f"0::{path}\n")
        self.file(
            "proc/self/mountinfo", f"30 23 0:26 {base} {point} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
        )

    def version_1(self, path: str, *, base: str = "/") -> None:
        self.file("proc/self/cgroup", f"7:memory:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:/elsewhere\n0::/\n")
        self.file(
            "proc/self/mountinfo",
            f"33 31 0:30 {base} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
            f"35 31 0:32 {base} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        )


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_without_control_groups_there_is_no_limit(tmp_path: Path, system: System) -> None:
    assert (cgroups.cpu_quota(tmp_path / "nowhere"), cgroups.memory(tmp_path / "nowhere")) == (None, None)
    assert (cgroups.cpu_quota(system.root), cgroups.memory(system.root)) == (None, None)
    system.version_2("/user.slice")  # nothing is mounted there
    assert (cgroups.cpu_quota(system.root), cgroups.memory(system.root)) == (None, None)


@pytest.mark.parametrize(
    ("text", "quota"),
    [("150000 100000\n", 1.5), ("max 100000\n", None), ("50000 100000", 0.5), ("", None), ("x y\n", None),
     ("0 100000", None), ("100000 0", None), ("100000\n", None), ("1 2 3", None)],
)  # fmt: skip
def test_a_quota_is_read_as_the_kernel_writes_it(system: System, text: str, quota: float | None) -> None:
    system.version_2("/")
    system.file("sys/fs/cgroup/cpu.max", text)
    assert cgroups.cpu_quota(system.root) == quota


def test_the_smallest_of_nested_groups_counts(system: System) -> None:
    system.version_2("/kubepods/pod1/main")
    system.file("sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n")
    system.file("sys/fs/cgroup/kubepods/pod1/cpu.max", "200000 100000\n")
    system.file("sys/fs/cgroup/kubepods/pod1/main/cpu.max", "max 100000\n")
    system.file("sys/fs/cgroup/kubepods/pod2/cpu.max", "10000 100000\n")
    assert cgroups.cpu_quota(system.root) == 2.0
    for folder, limit, used in (("kubepods", 900, 800), ("kubepods/pod1", 300, 100), ("kubepods/pod1/main", 400, 10)):
        system.file(f"sys/fs/cgroup/{folder}/memory.max", limit * MB)
        system.file(f"sys/fs/cgroup/{folder}/memory.current", used * MB)
    assert cgroups.memory(system.root) == (300 * MB, 100 * MB), "the pod's limit; what its parent has left"


@pytest.mark.parametrize("base", ["/", "/docker/abc", "/docker/another"])
def test_a_container_that_sees_its_own_group_only_finds_its_limits_at_the_mount(system: System, base: str) -> None:
    """With a namespace of its own, with the host's names, and where the two do not go together."""
    system.version_1("/docker/abc", base=base)
    system.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", 250_000)
    system.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100_000)
    system.file("sys/fs/cgroup/memory/memory.limit_in_bytes", 512 * MB)
    system.file("sys/fs/cgroup/memory/memory.usage_in_bytes", 12 * MB)
    assert cgroups.cpu_quota(system.root) == 2.5
    assert cgroups.memory(system.root) == (512 * MB, 500 * MB)


def test_version_1_without_limits_has_none(system: System) -> None:
    system.version_1("/")
    system.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
    system.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100_000)
    system.file("sys/fs/cgroup/memory/memory.limit_in_bytes", 0x7FFFFFFFFFFFF000)
    system.file("sys/fs/cgroup/memory/memory.usage_in_bytes", 12 * MB)
    assert (cgroups.cpu_quota(system.root), cgroups.memory(system.root)) == (None, None)


@pytest.mark.parametrize("version", [1, 2])
def test_cached_files_are_not_use(system: System, version: int) -> None:
    """A model that was just downloaded fills a container's memory with its pages; all of that is given back."""
    folder = "sys/fs/cgroup" if version == 2 else "sys/fs/cgroup/memory"
    if version == 2:
        system.version_2("/")
        system.file(f"{folder}/memory.max", "max\n")
        system.file(f"{folder}/memory.high", 1000 * MB)
        system.file(f"{folder}/memory.current", 990 * MB)
    else:
        system.version_1("/")
        system.file(f"{folder}/memory.limit_in_bytes", 1000 * MB)
        system.file(f"{folder}/memory.usage_in_bytes", 990 * MB)
    total = "" if version == 2 else "total_"
    system.file(
        f"{folder}/memory.stat", f"anon 5\n{total}inactive_file {600 * MB}\n{total}active_file {300 * MB}\nodd\n"
    )
    assert cgroups.memory(system.root) == (1000 * MB, 910 * MB)
    system.file(f"{folder}/memory.stat", f"{total}inactive_file {9000 * MB}\n{total}active_file many\n")
    assert cgroups.memory(system.root) == (1000 * MB, 1000 * MB), "never more than the limit"


def test_a_mount_point_with_a_space_and_a_path_that_climbs_are_read_rightly(system: System) -> None:
    system.version_2("/../../a", point="/my\\040groups")
    system.file("my groups/a/cpu.max", "100000 100000\n")
    assert cgroups.cpu_quota(system.root) == 1.0


@pytest.mark.parametrize(
    ("text", "threads"), [("max 100000", 8), ("150000 100000", 2), ("1000 100000", 1), ("9900000 100000", 8)]
)
def test_there_are_no_more_threads_than_the_quota_keeps_busy(system: System, text: str, threads: int) -> None:
    system.version_2("/")
    system.file("sys/fs/cgroup/cpu.max", text)
    assert cgroups.threads_within(8, system.root) == threads


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_default_threads_and_free_memory_are_those_of_the_container(
    monkeypatch: pytest.MonkeyPatch, system: System
) -> None:
    total, available = system_memory.total_memory(), system_memory.available_memory()
    assert total is not None
    assert available is not None
    system.version_2("/")
    system.file("sys/fs/cgroup/cpu.max", "50000 100000\n")
    system.file("sys/fs/cgroup/memory.max", 64 * MB)
    system.file("sys/fs/cgroup/memory.current", 60 * MB)
    system.file("sys/fs/cgroup/memory.stat", f"inactive_file {10 * MB}\n")
    memory, threads_within = cgroups.memory(system.root), cgroups.threads_within
    monkeypatch.setattr(cgroups, "memory", lambda: memory)
    monkeypatch.setattr(cgroups, "threads_within", lambda cores: threads_within(cores, system.root))
    assert cpu.num_physical_cores() == 1
    assert (system_memory.total_memory(), system_memory.available_memory()) == (64 * MB, 14 * MB)
