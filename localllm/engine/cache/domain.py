"""What computed keys and values belong to besides their tokens: prefixes of different domains are never shared, in any
tier.

Today a domain is the cache salt of a request. Anything else that changes the keys of equal tokens, or must keep them
apart (adapters), becomes another field and a part of the digest. Media do not: their ids are made from their content.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Domain(NamedTuple):
    """Equal domains share what is computed, different ones do not."""

    digest: str = ""
    """32 hexadecimal digits, empty without a salt: what is on the disk is found again by it."""

    @classmethod
    def of(cls, *, cache_salt: str) -> Domain:
        """The salt itself is not kept anywhere: it may be a secret."""
        if not cache_salt:
            return COMMON
        data = cache_salt.encode("utf-8", "surrogatepass")
        return cls(hashlib.blake2b(data, digest_size=16, person=b"localllm.salt").hexdigest())


COMMON = Domain()
"""For requests without a salt, and for what was saved before salts existed."""
