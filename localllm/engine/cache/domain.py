"""What computed keys and values belong to beside their tokens: prefixes of different domains share nothing, in no tier.

A domain is the cache salt of a request today. Whatever else makes equal tokens' keys different, or must keep them
apart (adapters, media), is another field of it and a part of its digest.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Domain(NamedTuple):
    """Equal ones share what is computed, others do not."""

    digest: str = ""
    """32 hexadecimal digits, or empty for what has no salt: what is on the disk is found again by it."""

    @classmethod
    def of(cls, *, cache_salt: str) -> Domain:
        """The salt itself is kept nowhere: it may be a secret."""
        if not cache_salt:
            return COMMON
        data = cache_salt.encode("utf-8", "surrogatepass")
        return cls(hashlib.blake2b(data, digest_size=16, person=b"localllm.salt").hexdigest())


COMMON = Domain()
"""Of everybody who gives no salt, and of what was saved before there were any."""
