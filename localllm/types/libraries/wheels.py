"""Wheels of the package index whose libraries localllm can use, pinned by version and content. Plain data.

None of their Python code is used.
"""

from __future__ import annotations

from typing import NamedTuple


class File(NamedTuple):
    """A wheel's file for one platform."""

    size_bytes: int
    sha256: str


class Wheel(NamedTuple):
    """A package that brings llama.cpp."""

    name: str
    """Name of the runtime."""
    package: str
    version: str
    build: str
    """A `Build.version`."""
    kind: str
    """What it computes on besides the CPU, as in `building.KINDS`."""
    files: dict[str, File]
    """Platform (`machine.wheel_platform`) -> its file."""
    maker: str
    """Who built it."""
    quantizes: bool = False
    """Whether its llama.cpp can quantize."""


WHEELS = (
    Wheel("wheel-2026.9", "xllamacpp", "2026.9.11063", "0.4.1", "cpu", {
        "linux-x86_64": File(33054267, "329ac1478b66be40d8338d15272bcd9aebfe09834ca4daf7813cc2c8c1bdad90"),
        "linux-aarch64": File(32237032, "b88a42b2d586b91e707f81a3e6faabfaf0c604a726af517ba214a2f3d00fae6e"),
        "darwin-arm64": File(11289028, "895429a281cb18da2e34108758c1950749d6c4ab47d56574ea7d79a11c5e727c"),
        "darwin-x86_64": File(11162350, "1870ddaeac4f3f178df09055e7355e9216de95e89780671864756c9840c0f074"),
        "windows-x86_64": File(8464573, "45838b4cf0ebeb0cfa0f932034ccd24e570b628d73580d99219e9fdf9260f13d"),
    }, "the xllamacpp project"),
    Wheel("wheel-2026.10", "xllamacpp", "2026.10.11549", "0.6.0", "cpu", {
        "linux-x86_64": File(33827498, "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261"),
        "linux-aarch64": File(32870844, "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e"),
        "darwin-arm64": File(12152949, "4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781"),
        "darwin-x86_64": File(11523198, "1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689"),
        "windows-x86_64": File(8733245, "1b76730ab9af47ec8d05a3d55154305fa92642f694dd9ad87d9e5a5e9956a59d"),
    }, "the xllamacpp project"),
    Wheel("vulkan-0.7", "cyllama-vulkan", "0.7.0", "0.7.0", "vulkan", {
        "linux-x86_64": File(33968392, "c345a84772353b68b9c52f9dfa6e11f9d7ff7c98e671c5eb5d1689d8c707a075"),
    }, "the cyllama project", quantizes=True),
    Wheel("cuda12-0.7", "cyllama-cuda12", "0.7.0", "0.7.0", "cuda", {
        "linux-x86_64": File(95013366, "9591e5eea596a44a2a8a9546fc95515e52fadffc81bb8b50f1c6003df36689e5"),
    }, "the cyllama project", quantizes=True),
)  # fmt: skip
"""Oldest llama.cpp first. CUDA's needs NVIDIA's driver, and the CUDA 12 runtime and cuBLAS of this machine. The
Windows file of cyllama-vulkan is left out: its libraries were never seen to load."""
