"""Which text models take vectors in place of tokens: others end the process. Knows nothing of projectors."""

from __future__ import annotations

NO_ROWS = frozenset({"graniteswitch"})
"""Their graph asserts that there are tokens."""
ONLY_PLANES = frozenset({"glm4", "glm4moe"})
"""Their graph ends the process if the header has no sections of rotary embeddings: files made before these were
supported would give wrong answers."""


def takes_rows(architecture: str, *, has_planes: bool) -> bool:
    """`has_planes`: positions of rows count in planes (M-RoPE)."""
    return architecture not in NO_ROWS and (has_planes or architecture not in ONLY_PLANES)
