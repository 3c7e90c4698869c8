"""Which llama.cpp knows an architecture, and the words for one that the library in use does not know."""

from __future__ import annotations

import pytest

from localllm.gguf import architectures
from localllm.system import machine
from localllm.types.libraries import builds
from localllm.types.libraries.wheels import WHEELS

OLDEST, NEWEST = builds.known()[0], builds.known()[-1]


@pytest.mark.parametrize(
    ("architecture", "in_use", "platform", "words"),
    [
        ("llama", OLDEST, "linux-x86_64", None),
        ("k2-horizon", None, "linux-x86_64", None),
        ("k2-horizon", OLDEST, "linux-x86_64",
         "'k2-horizon' needs llama.cpp 0.6 (b11549); `localllm runtime install wheel-2026.10` has it, 34 MB"),
        ("k2-horizon", OLDEST, "darwin-arm64",
         "'k2-horizon' needs llama.cpp 0.6 (b11549); `localllm runtime install wheel-2026.10` has it, 12 MB"),
        ("maion-coder", OLDEST, "darwin-arm64",
         f"'maion-coder' needs llama.cpp {NEWEST.label}; there is no wheel of it for this machine"),
        ("nonsense", None, "linux-x86_64", "no llama.cpp that this localllm can use knows the architecture 'nonsense'"),
    ],
)  # fmt: skip
def test_what_a_file_needs_is_said_with_the_runtime_that_has_it(
    architecture: str, in_use: builds.Build | None, platform: str, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "wheel_platform", lambda: platform)
    said = architectures.needs(architecture, in_use)
    assert said == words if words is None else said is not None and said.startswith(words)


def test_each_build_is_whole_and_each_wheel_names_one() -> None:
    for build in builds.known():
        assert build.version in {"0.4.1", "0.5.0", "0.6.0", "0.7.0"}
        assert {"llama", "qwen3", "gemma4"} <= build.architectures.keys()
        assert build.structs["llama_context_params"][-1] == ("ctx_other", "pointer")
    assert {wheel.build for wheel in WHEELS} <= {build.version for build in builds.known()}
    assert len({file.sha256 for wheel in WHEELS for file in wheel.files.values()}) == 13
