"""`localllm recommend`: the best models of the catalog for this machine. Asks no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from localllm.cli.render.units import size, wrapped
from localllm.cli.shared import report
from localllm.cli.shared.devices import seen_of
from localllm.cli.shared.model_names import is_here
from localllm.planning import prediction, rough
from localllm.planning.speeds import NotPredicted, ProbeAnswer, ProbeQuestion, Speed
from localllm.registry import catalog
from localllm.registry.catalog import CatalogEntry
from localllm.registry.offers.recommending import (
    LEAST_TOKENS_PER_S,
    PURPOSES,
    Recommended,
    Room,
    Use,
    considered,
    figures,
    recommended,
)
from localllm.settings.config import Settings
from localllm.system import cpu, memory

CLEARLY = 1.1
"""Speeds that differ by a smaller factor are called the same."""
SAME = "no slower and no larger"
WIDE_COLUMNS = 76
"""Narrower terminals get the comparisons as sentences."""
SMALL_PART = 50
"""So are sizes that differ by less than such a part."""


def recommend_models(settings: Settings, use: Use, *, as_json: bool) -> int:
    """Print them; returns the exit code."""
    room = _room(settings)
    found = best(settings, use, room)
    if as_json:
        pairs = [*pairwise(found), *((each, None) for each in found[-1:])]
        report.write_json(msgspec.json.encode([_as_object(each, other, use, settings) for each, other in pairs]))
    elif found:
        _show(found, use, room, settings)
    if not found:
        free = "" if room.main_bytes is None else f": {size(room.main_bytes)} are free"
        report.say(f"localllm: no model of the catalog fits into this machine's memory{free}")
        return report.FAILURE
    return report.OK


def best(settings: Settings, use: Use, room: Room) -> list[Recommended]:
    """The best models, measuring for up to a second what was never measured on this machine."""
    entries = catalog.load().entries
    return recommended(entries, use, room, _speeds(settings, considered(entries, use), room))


def _room(settings: Settings) -> Room:
    gpus = {each.memory_key: each.free_bytes for each in seen_of(settings).devices if _is_used(each.kind, settings)}
    return Room(memory.available_memory(), sum(gpus.values()))


def _is_used(kind: str, settings: Settings) -> bool:
    return kind != "cpu" and settings.gpu_layers != 0


def _speeds(
    settings: Settings, entries: Sequence[CatalogEntry], room: Room
) -> Callable[[CatalogEntry], Speed | NotPredicted]:
    """How fast this CPU would be with an entry. Measures what some model that fits needs, if it never was measured."""
    may_fit = [each for each in entries if room.main_bytes is None or each.size_bytes < room.main_bytes]
    question = ProbeQuestion(
        data_dir=str(settings.data_dir),
        runtime=settings.runtime,
        threads=settings.threads or cpu.num_physical_cores(),
        kernels=tuple(sorted({figures(each).kernel for each in may_fit})),
        heads=(),
        may_measure=False,
    )
    answer = _measured(question)

    def speed(entry: CatalogEntry) -> Speed | NotPredicted:
        if answer.speed is None:
            return NotPredicted(answer.error or "nothing was measured")
        return rough.speed(figures(entry), answer.speed)

    return speed


def _measured(question: ProbeQuestion) -> ProbeAnswer:
    """What is known of this machine, even if it was measured while something else ran; measured if nothing is."""
    known = prediction.ask(question)
    if known.speed is not None and set(question.kernels) <= set(known.speed.kernels):
        return known
    report.say("localllm: measuring this machine, once")
    return prediction.ask(msgspec.structs.replace(question, may_measure=True))


def _show(found: Sequence[Recommended], use: Use, room: Room, settings: Settings) -> None:
    columns = report.screen_columns()
    head = ["NAME", PURPOSES[use].measure.upper(), "TOKENS/S", "MEMORY", "DISK"]
    rows = [_row(each, settings) for each in found]
    if any(each.fits == "slow" for each in found):
        head.append("FITS")
        rows = [[*row, _fits(each)] for row, each in zip(rows, found, strict=True)]
    compared = [*(_compared(each, other) for each, other in pairwise(found)), ""]
    if columns is None or columns >= WIDE_COLUMNS:
        head.append("THAN THE NEXT")
        rows = [[*row, words] for row, words in zip(rows, compared, strict=True)]
        compared = []
    report.write_table(head, rows)
    lines = [
        f"{each.entry.id} is {words} than {other.entry.id}."
        for words, (each, other) in zip(compared, pairwise(found), strict=False)
        if words != SAME
    ]
    notes = ["", *lines, *_notes(found, use, room, settings)]
    report.write(*(notes if columns is None else (wrapped(each, columns) for each in notes)))


def _fits(one: Recommended) -> str:
    return "yes" if one.fits == "yes" else f"slow: under {LEAST_TOKENS_PER_S:.0f} tokens/s"


def _row(one: Recommended, settings: Settings) -> list[str]:
    entry, rate = one.entry, one.tokens_per_s
    return [
        f"{entry.id}{' *' * is_here(entry.id, settings)}",
        "?" if one.score is None else f"{one.score.score:.1f}",
        "?" if rate is None else f"{rate:,.0f}" if rate >= LEAST_TOKENS_PER_S else f"{rate:.1f}",
        size(one.need_bytes),
        size(entry.size_bytes),
    ]


def _compared(one: Recommended, other: Recommended) -> str:
    """`1.9x slower and 3.1 GB larger`."""
    parts = []
    if one.tokens_per_s and other.tokens_per_s:
        ratio = one.tokens_per_s / other.tokens_per_s
        if max(ratio, 1 / ratio) >= CLEARLY:
            parts.append(f"{max(ratio, 1 / ratio):.1f}x {'faster' if ratio > 1 else 'slower'}")
    difference = one.need_bytes - other.need_bytes
    if abs(difference) * SMALL_PART > one.need_bytes:
        parts.append(f"{size(abs(difference))} {'larger' if difference > 0 else 'smaller'}")
    return " and ".join(parts) or SAME


def _notes(found: Sequence[Recommended], use: Use, room: Room, settings: Settings) -> list[str]:
    measure, ctx = PURPOSES[use].measure, max(each.ctx for each in found)
    free = "" if room.main_bytes is None else f"; {size(room.main_bytes)} are free"
    notes = [f"Memory with a context of {ctx:,} tokens{free}."]
    if use == "vision" or any(each.entry.kind == "vision" for each in found):
        notes[0] = notes[0][:-1] + "; what reads pictures comes on top."
    what = "of texts that it reads" if use == "embed" else "of an answer"
    notes.append(f"Tokens/s {what}: predicted, within about {rough.ERROR:.0%}.")
    reasons = dict.fromkeys(each.speed.reason for each in found if isinstance(each.speed, NotPredicted))
    notes += [f"? tokens/s: {reason}." for reason in reasons]
    if any(each.score is None for each in found):
        notes.append(f"? {measure}: no published score; ranked behind models of its size and larger that have one.")
    if any(is_here(each.entry.id, settings) for each in found):
        notes.append("* is on this machine.")
    sources = dict.fromkeys(each.score.source for each in found if each.score is not None)
    notes += [f"{measure} as stated by:", *(f"  {source}" for source in sources)] if sources else []
    return [*notes, f"Start one: localllm run {found[0].entry.id}" if use != "embed" else ""]


def _as_object(one: Recommended, other: Recommended | None, use: Use, settings: Settings) -> dict[str, Any]:
    rate = one.tokens_per_s
    return {
        "name": one.entry.id,
        "measure": PURPOSES[use].measure,
        "score": None if one.score is None else one.score.score,
        "source": None if one.score is None else one.score.source,
        "tokens_per_s": None if rate is None else round(rate, 2),
        "why_no_speed": one.speed.reason if isinstance(one.speed, NotPredicted) else None,
        "memory_bytes": one.need_bytes,
        "ctx": one.ctx,
        "disk_bytes": one.entry.size_bytes,
        "fits": one.fits == "yes",
        "slow": one.fits == "slow",
        "here": is_here(one.entry.id, settings),
        "than_next": None if other is None else _compared(one, other),
    }
