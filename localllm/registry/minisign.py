"""Verifies signatures of minisign, as `minisign -Sm FILE` writes them into FILE.minisig.

    untrusted comment: ...
    base64("ED" | key id, 8 bytes | Ed25519 signature of the file's BLAKE2b-512, 64 bytes)
    trusted comment: timestamp:1764374400 ...
    base64(Ed25519 signature of the signature above and the trusted comment, 64 bytes)

The format: https://jedisct1.github.io/minisign/. Ed25519 is that of the package `cryptography` (extra `catalog`).
Knows nothing of what is signed.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

from localllm.errors import InvalidParameter

PREHASHED, LEGACY, ED25519 = b"ED", b"Ed", b"Ed"
"""Algorithms: of signatures over a hash, of signatures over the file itself, and of keys."""
_ID_BYTES, _KEY_BYTES, _SIGNATURE_BYTES = 8, 32, 64
_TRUSTED = "trusted comment: "
_TIMESTAMP = re.compile(r"(?:^|\s)timestamp:(\d{1,12})(?:\s|$)")


class NotSigned(ValueError):
    """The file is not signed by that key; the message says why."""


@dataclass(frozen=True)
class PublicKey:
    """A public key as minisign prints it."""

    id: bytes
    key: bytes


def public_key(text: str) -> PublicKey:
    """The key that `minisign -G` prints, `RW...`. Raises `InvalidParameter` for `catalog_key`."""
    data = _decoded(text.strip())
    if data is None or len(data) != 2 + _ID_BYTES + _KEY_BYTES or data[:2] != ED25519:
        raise InvalidParameter(
            "catalog_key has to be a public key of minisign, the 56 characters beginning with RW in its .pub file",
            param="catalog_key",
        )
    return PublicKey(data[2 : 2 + _ID_BYTES], data[2 + _ID_BYTES :])


def signed_at(content: bytes, signature: bytes, key: PublicKey) -> int:
    """When that key signed the content: Unix time in seconds, from the trusted comment. Raises `NotSigned`."""
    lines = signature.decode("utf-8", "replace").splitlines()
    own, comment, whole = _parts(lines)
    if own[:2] == LEGACY:
        raise NotSigned("the signature is of minisign's legacy form; sign again with minisign 0.8 or newer, with -H")
    if own[:2] != PREHASHED:
        raise NotSigned("the signature is of an unknown algorithm")
    if own[2 : 2 + _ID_BYTES] != key.id:
        raise NotSigned("the signature is of another key than catalog_key")
    value = own[2 + _ID_BYTES :]
    _verify(key, value, hashlib.blake2b(content).digest(), "the signature does not fit the file")
    _verify(key, whole, value + comment.encode(), "the signature does not fit its comment")
    time = _TIMESTAMP.search(comment)
    if time is None:
        raise NotSigned("the signature's trusted comment has no timestamp, so an older file could replace a newer one")
    return int(time[1])


def _parts(lines: list[str]) -> tuple[bytes, str, bytes]:
    """Signature with algorithm and key id, trusted comment, and the signature of both."""
    if len(lines) < 4 or not lines[2].startswith(_TRUSTED):
        raise NotSigned("the signature is not one of minisign")
    own, whole = _decoded(lines[1]), _decoded(lines[3])
    if own is None or len(own) != 2 + _ID_BYTES + _SIGNATURE_BYTES or whole is None or len(whole) != _SIGNATURE_BYTES:
        raise NotSigned("the signature is not one of minisign")
    return own, lines[2].removeprefix(_TRUSTED), whole


def _verify(key: PublicKey, signature: bytes, data: bytes, problem: str) -> None:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise NotSigned(
            'signatures are verified by a package that is missing: pip install "localllm[catalog]"'
        ) from error
    try:
        Ed25519PublicKey.from_public_bytes(key.key).verify(signature, data)
    except (InvalidSignature, ValueError) as error:
        raise NotSigned(problem) from error


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
