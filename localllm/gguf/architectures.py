"""Which llama.cpp can load a file's architecture, and where to get it.

Knows the builds that localllm can use, and neither those of this machine nor the one in use.
"""

from __future__ import annotations

from localllm.system import machine
from localllm.types.libraries import builds
from localllm.types.libraries.builds import Build
from localllm.types.libraries.wheels import WHEELS, Wheel


def builds_for(architecture: str) -> tuple[Build, ...]:
    """The builds that can load it, oldest first."""
    return tuple(build for build in builds.known() if architecture in build.architectures)


def needs(architecture: str, in_use: Build | None = None) -> str | None:
    """Why a file of that architecture does not load, and what to type; None if it does.

    `in_use`: the build of the library that is to load it; None: any that localllm can use.
    """
    able = builds_for(architecture)
    if in_use in able or (in_use is None and able):
        return None
    if not able:
        newest = builds.known()[-1]
        return (
            f"no llama.cpp that this localllm can use knows the architecture {architecture!r} (the newest is "
            f"{newest.label}); look for a newer version of localllm"
        )
    wheel = next((wheel for build in able if (wheel := wheel_of(build)) is not None), None)
    if wheel is None:
        return f"{architecture!r} needs llama.cpp {able[0].label}; there is no wheel of it for this machine"
    label = builds.named(wheel.build).label
    megabytes = wheel.files[machine.wheel_platform()].size_bytes / 1e6
    return (
        f"{architecture!r} needs llama.cpp {label}; `localllm runtime install {wheel.name}` has it, {megabytes:.0f} MB"
    )


def wheel_of(build: Build) -> Wheel | None:
    """The wheel that brings this build to this machine."""
    platform = machine.wheel_platform()
    return next((wheel for wheel in WHEELS if wheel.build == build.version and platform in wheel.files), None)
