"""Which models of the catalog suit a machine: pure functions of the entries, the memory that is free, and speeds.

Ranked by a published score. An entry without one stands behind all of its size and larger that have one, since nothing
is known that would put it before them. Knows nothing of how speeds are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from localllm.planning import rough
from localllm.planning.rough import Figures
from localllm.planning.speeds import NotPredicted, Speed
from localllm.registry.catalog import CatalogEntry, Kind, Score

Use = Literal["chat", "code", "vision", "embed", "agents"]
Fits = Literal["yes", "slow", "no"]
LEAST_TOKENS_PER_S = 5.0
"""Of answers; slower models are called slow."""
MOST = 5


class Purpose(NamedTuple):
    """What a use asks of a model."""

    measure: str
    """The score that ranks models for it."""
    kinds: tuple[Kind, ...]
    """Entries of other kinds are considered if they have such a score, or one of `also`."""
    ctx: int
    """A useful context, in tokens."""
    also: str = ""
    """Another measure, on which only models are tested that could do this."""


PURPOSES: Mapping[Use, Purpose] = {
    "chat": Purpose("MMLU-Pro", ("chat", "vision"), 8192),
    "code": Purpose("LiveCodeBench v6", ("code",), 16_384),
    "vision": Purpose("MMMU-Pro", ("vision",), 8192),
    "embed": Purpose("MTEB multilingual v2", ("embedding",), 2048),
    "agents": Purpose("tau2-bench", (), 32_768, also="LiveCodeBench v6"),
}


class Room(NamedTuple):
    """Memory in bytes."""

    main_bytes: int | None
    """Free main memory; None: unknown."""
    gpu_bytes: int = 0
    """Free memory of the GPUs that a load would use."""


class Recommended(NamedTuple):
    """A model for this machine."""

    entry: CatalogEntry
    score: Score | None
    need_bytes: int
    ctx: int
    """The context that `need_bytes` counts, in tokens."""
    speed: Speed | NotPredicted
    fits: Fits

    @property
    def tokens_per_s(self) -> float | None:
        """Of answers; of a model that embeds, of the texts that it reads."""
        if isinstance(self.speed, NotPredicted):
            return None
        reads = self.entry.kind == "embedding"
        return self.speed.prompt_tokens_per_s if reads else self.speed.answer_tokens_per_s


def figures(entry: CatalogEntry) -> Figures:
    """What the catalog says of a model's size."""
    return Figures(
        size_bytes=entry.size_bytes,
        quant=entry.quant,
        num_parameters=entry.num_parameters,
        active_parameters=entry.active_parameters,
        kv_bytes_per_token=entry.kv_bytes_per_token,
        generates=entry.kind not in ("embedding", "reranker"),
    )


def considered(entries: Iterable[CatalogEntry], use: Use) -> list[CatalogEntry]:
    """The entries for this use, the best first."""
    purpose = PURPOSES[use]
    found = [each for each in entries if _suits(each, purpose)]
    place = _places(found, purpose.measure)
    return sorted(found, key=lambda each: (place(each), each.size_bytes), reverse=True)


def recommended(
    entries: Iterable[CatalogEntry],
    use: Use,
    room: Room,
    speed: Callable[[CatalogEntry], Speed | NotPredicted],
    most: int = MOST,
) -> list[Recommended]:
    """The best that fit, at most `most`; behind them, if they are fewer, slow ones. None that does not fit."""
    rated = [_rated(each, use, room, speed(each)) for each in considered(entries, use)]
    return [*(each for each in rated if each.fits == "yes"), *(each for each in rated if each.fits == "slow")][:most]


def _suits(entry: CatalogEntry, purpose: Purpose) -> bool:
    has_score = entry.scored(purpose.measure) is not None or entry.scored(purpose.also) is not None
    is_meant = entry.kind in purpose.kinds or has_score
    return is_meant and (entry.kind == "embedding" or entry.context_length >= purpose.ctx)


def _places(entries: Sequence[CatalogEntry], measure: str) -> Callable[[CatalogEntry], float]:
    """Score of an entry; without one, just less than the least of those of its size or larger, or else of all."""
    scores = [(_size_class(each), found.score) for each in entries if (found := each.scored(measure)) is not None]

    def place(entry: CatalogEntry) -> float:
        found = entry.scored(measure)
        if found is not None:
            return found.score
        others = [score for size, score in scores if size >= _size_class(entry)] or [score for _, score in scores]
        return min(others, default=0.0) - 1e-6

    return place


def _size_class(entry: CatalogEntry) -> int:
    """Equal for models whose numbers of parameters differ by less than a factor of two or so."""
    return entry.num_parameters.bit_length()


def _rated(entry: CatalogEntry, use: Use, room: Room, speed: Speed | NotPredicted) -> Recommended:
    ctx = min(PURPOSES[use].ctx, entry.context_length)
    need = rough.need_bytes(figures(entry), ctx)
    if need <= room.gpu_bytes:
        speed = NotPredicted("a GPU takes it, and only the CPU is measured")
    found = Recommended(entry, entry.scored(PURPOSES[use].measure), need, ctx, speed, "yes")
    if room.main_bytes is not None and need > max(room.main_bytes, room.gpu_bytes):
        return found._replace(fits="no")
    rate = found.tokens_per_s
    return found._replace(fits="slow") if rate is not None and rate < LEAST_TOKENS_PER_S else found
