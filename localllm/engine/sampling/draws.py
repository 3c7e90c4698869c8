"""Log-probabilities of the distribution that a token was drawn from: after mask, penalties, filters and temperature.

In NumPy, whichever sampler drew the token: both draw from the same weights. Knows nothing of requests.
"""

from __future__ import annotations

import math

import numpy as np

from localllm.engine.sampling.sampler import SampledToken, SamplerParams, candidates
from localllm.engine.sampling.selection import Row, sums_of, total


def as_drawn(row: Row, params: SamplerParams, sampled: SampledToken) -> SampledToken:
    """The same token with its log-probabilities at the draw; tokens that could not come are left out."""
    if sampled.token < 0:
        return sampled
    tokens, weights = candidates(row, params)
    whole = total(sums_of(weights))
    order = np.argsort(-weights, kind="stable")[: max(0, params.num_top)]
    top = tuple((int(tokens[i]), math.log(float(weights[i]) / whole)) for i in order if weights[i] > 0)
    own = weights[tokens == sampled.token]
    # A weight that underflows is 0 and cannot be drawn.
    logprob = math.log(float(own[0]) / whole) if len(own) and own[0] > 0 else -math.inf
    return sampled._replace(logprob=logprob, top=top)
