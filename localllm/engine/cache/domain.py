"""What computed keys and values belong to besides their tokens: prefixes of different domains are never shared, in any
tier.

A domain is the cache salt of a request and the set of adapters that it is computed under. Anything else that changes
the keys of equal tokens, or must keep them apart, becomes a part of the digest. Media do not, since their ids are made
from their content, nor do adapters that begin to work within a prompt (`requests.activation`).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, described


class Domain(NamedTuple):
    """Equal domains share what is computed, different ones do not."""

    digest: str = ""
    """32 hexadecimal digits, empty without salt and adapters: what is on the disk is found again by it."""

    @classmethod
    def of(cls, *, cache_salt: str, adapters: AdapterSet = NO_ADAPTERS) -> Domain:
        """The salt itself is not kept anywhere: it may be a secret."""
        if not cache_salt and not adapters:
            return COMMON
        data = cache_salt.encode("utf-8", "surrogatepass")
        if not adapters:
            return cls(hashlib.blake2b(data, digest_size=16, person=b"localllm.salt").hexdigest())
        data = described(adapters) + b"\n" + data
        return cls(hashlib.blake2b(data, digest_size=16, person=b"adapter sets").hexdigest())


COMMON = Domain()
"""For requests without salt and adapters, and for what was saved before there were any."""
