"""The sha256 of a file's content: the only type that identifies a blob, and the only code that makes it a file name.

Knows nothing of disks. No other code turns a digest into a path (CVE-2024-37032: a manifest's digest was a path).
"""

from __future__ import annotations

import re
from typing import Any

from localllm.errors import InvalidParameter

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Digest:
    """64 lower-case hexadecimal digits, whatever the input form. Equal digests mean equal content."""

    __slots__ = ("hex",)

    def __init__(self, hex: str) -> None:
        """Raises `InvalidParameter` for anything but 64 lower-case hexadecimal digits."""
        if not isinstance(hex, str) or not _HEX.fullmatch(hex):
            raise InvalidParameter(f"{str(hex)[:100]!r} is not a sha256", param="digest")
        self.hex = hex

    @classmethod
    def parse(cls, text: str) -> Digest:
        """`sha256:HEX`, or `sha256-HEX` as files are named. Raises `InvalidParameter`."""
        match = _DIGEST.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidParameter(
                f"{str(text)[:100]!r} is not a digest; write sha256: and 64 hexadecimal digits", param="digest"
            )
        return cls(match[1])

    @property
    def file_name(self) -> str:
        """Safe on every system: `sha256-HEX`."""
        return f"sha256-{self.hex}"

    @property
    def short(self) -> str:
        """For people."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"

    def __repr__(self) -> str:
        return f"Digest({self.short})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and other.hex == self.hex

    def __hash__(self) -> int:
        return hash(self.hex)


def encode_digest(value: Any) -> Any:
    """`enc_hook` for msgspec."""
    if isinstance(value, Digest):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no wire form")


def decode_digest(kind: type, value: Any) -> Any:
    """`dec_hook` for msgspec. Raises `ValueError`, which msgspec turns into its `ValidationError`."""
    if kind is Digest:
        try:
            return Digest.parse(value)
        except InvalidParameter as error:
            raise ValueError(error.message) from error
    raise NotImplementedError(f"{kind.__name__} has no wire form")
