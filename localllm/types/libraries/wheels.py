"""Wheels of the package index whose libraries localllm can use, pinned by version and content. Plain data.

None of their Python code is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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
    libraries: Mapping[str, File] = MappingProxyType({})
    """Files of llama.cpp in the folder `PACKAGE.libs` that pip installs on Linux (x86-64); empty: it is no extra of
    localllm, or one compiled module."""


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
    }, "the cyllama project", quantizes=True, libraries={
        "libggml-2f623e0b.so.0.27.0": File(314145, "f7022af8c84a67f0999a1244b3aae332170813394d84201136eb83c1145d22f8"),
        "libggml-base-82914aef.so.0.27.0": File(
            916905, "4235f9972bb18d9558d3e3db2bbebc9230281e1107db060842ea86cc99cef7b4"
        ),
        "libggml-cpu-0786c92d.so": File(1486625, "0fdc774b45c3480c2f3adc5eb7e74005fbb37eacd8f410bdce38a3dac9f002c2"),
        "libggml-vulkan-4062e2a6.so": File(
            42255633, "37724d59588ca3481c027ff0983530211f98249278169e2ed3c24ed356387293"
        ),
        "libllama-af9aab63.so.0.7.0": File(5739785, "019168565448349af9e10b535012b20e3d50d157a3ee5aa2818f5b69d75332c7"),
    }),
    Wheel("cuda12-0.7", "cyllama-cuda12", "0.7.0", "0.7.0", "cuda", {
        "linux-x86_64": File(95013366, "9591e5eea596a44a2a8a9546fc95515e52fadffc81bb8b50f1c6003df36689e5"),
    }, "the cyllama project", quantizes=True, libraries={
        "libggml-8bdbc6d9.so.0.27.0": File(695785, "1da166d0cab6fa4c0cd4e663daa470029fe43a6d8200ef80737dad59b4d27a50"),
        "libggml-base-18a2acd8.so.0.27.0": File(
            908753, "11f4a12785c792c55a6483482d918c2a0b5415679d062c4ceb2a9d858a3000e0"
        ),
        "libggml-cpu-3db4a1e2.so": File(1528297, "051af709125f7fde21d2bf3cba6d306d7474c52b8a4c6457c45923e8b9ce68fb"),
        "libggml-cuda-7c0b4d3a.so": File(209601257, "876139db9963e51ca65949c17589f8e4ed9dd5a665bb564c0079596cbaba0bf1"),
        "libllama-e4014eb7.so.0.7.0": File(5713041, "513f0df821478b35fb3e86db48c6279d7a7721649d0f17c3b39292c2b7410a08"),
    }),
    Wheel("rocm-0.7", "cyllama-rocm", "0.7.0", "0.7.0", "hip", {
        "linux-x86_64": File(59729346, "e6ebb996d986f1add67a29300ded7781d50456c3f5311ae648f1d72a3b144b9c"),
    }, "the cyllama project", quantizes=True),
    Wheel("metal-2026.10", "xllamacpp", "2026.10.11549", "0.6.0", "metal", {
        "darwin-arm64": File(12152949, "4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781"),
    }, "the xllamacpp project"),
)  # fmt: skip
"""Oldest llama.cpp first. CUDA's needs NVIDIA's driver, and the CUDA 12 runtime and cuBLAS of this machine; ROCm's
AMD's driver, HIP and hipBLAS. Those of ROCm and Metal, and all for macOS, Windows and ARM, were never loaded here. The
Windows file of cyllama-vulkan is left out: its libraries were never seen to load."""
