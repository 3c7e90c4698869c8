"""Where in a prompt an activated adapter (aLoRA) begins to work, and by which ids the KV cache knows the tokens there.

    prompt      t t t t t | i i t t t      | is `start`; i are the adapter's invocation tokens
    computed    before    | under all of the request's adapters
    in cache    t t t t t | x x x x x      x is made of the token and of the set of adapters

A prompt is of the domain of what is computed before, so what the base has cached serves it up to there, and the other
way round. No prefix goes further by mistake: behind the start no id is the base's or another set's. As with media, ids
are compared, never decoded. Knows nothing of slots.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from localllm.engine.requests.adapters import AdapterSet, described

_NUM_IDS = 2**32


class Activation(NamedTuple):
    """Of one sequence."""

    start: int
    """Index of the first token that is computed under all adapters. The prompt goes on at least to there."""
    before: AdapterSet
    """What the tokens before it are computed under."""
    factor: int
    """Odd, so that different tokens have different ids."""
    offset: int

    def under(self, adapters: AdapterSet, index: int) -> AdapterSet:
        """What the token at this index is computed under, in a sequence under these adapters."""
        return self.before if index < self.start else adapters

    def ids(self, first: int, tokens: Sequence[int]) -> list[int]:
        """The cache's ids of these tokens, signed 32-bit numbers; the first one is at the index `first`."""
        return [token if index < self.start else self._id(token) for index, token in enumerate(tokens, first)]

    def shifted(self, keep: int, drop: int) -> Activation:
        """In the sequence without `drop` tokens after the first `keep`."""
        return self._replace(start=max(min(self.start, keep), self.start - drop))

    def _id(self, token: int) -> int:
        """A permutation of all numbers of 32 bits, another one for each set: two of them agree on a token by chance
        once in 2**32 times, and hardly ever on two."""
        made = (token * self.factor + self.offset) % _NUM_IDS
        return made - _NUM_IDS if made >= _NUM_IDS // 2 else made


def activation(
    prompt: Sequence[int], invocation: Sequence[int], before: AdapterSet, adapters: AdapterSet
) -> Activation | None:
    """Where an adapter with this invocation begins to work: at its last occurrence in the prompt; None: it does not.

    `before`: the set `adapters` without it.
    """
    start = last_occurrence(prompt, invocation)
    if start is None:
        return None
    made = hashlib.blake2b(described(adapters), digest_size=8, person=b"activated set").digest()
    factor, offset = int.from_bytes(made[:4], "little") | 1, int.from_bytes(made[4:], "little")
    return Activation(start, before, factor, offset)


def last_occurrence(tokens: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Index of the last place where the wanted tokens, at least one, stand one after the other."""
    wanted, count = list(wanted), len(wanted)
    for start in range(len(tokens) - count, -1, -1):
        if tokens[start] == wanted[0] and list(tokens[start : start + count]) == wanted:
            return start
    return None
