"""KV reuse on the real llama.cpp: what is continued, copied or shared answers as if it had been computed afresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, ReportOptions, Request, Reuse, Shift
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.types import Finish, FlashAttn, KvType, ResolvedSampling
from tests.draining import drain
from tests.models import families
from tests.models.maker import write_llama
from tests.samplers import sampler

GREEDY = ResolvedSampling(temperature=0)
CTX, SLOTS = 512, 4
TOLERANCE = 1e-4
"""By how much logits of about 4 may differ when their tokens were computed in other batches (F32 weights)."""


@contextmanager
def opened(
    loaded_library: library.Library,
    path: Path,
    *,
    ctx: int = CTX,
    num_cells: int | None = None,
    kv_type: KvType = "f16",
    flash_attn: FlashAttn = "auto",
    threads: int = 2,
) -> Iterator[LlamaBackend]:
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    try:
        backend = open_backend(
            loaded_library,
            model,
            KvMemory(ctx, SLOTS, num_cells=num_cells, kv_type=kv_type),
            Batching(128),
            threads=threads,
            attention=Attention(flash_attn),
        )
        yield backend
        backend.free()
    finally:
        model.close()


@pytest.fixture(scope="module", params=["on", "off"], ids=lambda mode: f"flash-{mode}")
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tiny_model: Path
) -> Iterator[LlamaBackend]:
    with opened(loaded_library, tiny_model, flash_attn=request.param) as backend:
        assert backend.context.flash_attn is (request.param == "on")
        yield backend


class Recorder:
    """Every request's sequence and how it ended."""

    def __init__(self, backend: LlamaBackend, *, context_shift: bool = False) -> None:
        self.engine = build_engine(backend, self, sampler=sampler(), tiers=Tiers(2**26), context_shift=context_shift)
        self.sequences: dict[int, Sequence] = {}
        self.finish: dict[int, Finish] = {}

    def __call__(self, output: StepOutput) -> None:
        assert not output.failures
        self.finish.update({id: delta.finish for id, delta in output.deltas if delta.finish is not None})

    def ask(self, prompt: list[int], max_tokens: int = 12, *, keep: int = 0) -> int:
        id = len(self.sequences)
        self.sequences[id] = Sequence(
            Request(
                id,
                prompt,
                sampling=GREEDY,
                max_tokens=max_tokens,
                ending=Ending(ignore_eos=True),
                shift=Shift(keep=keep),
            )
        )
        self.engine.submit(self.sequences[id])
        return id

    def drain(self) -> None:
        drain(self.engine)

    def answer(self, id: int) -> list[int]:
        sequence = self.sequences[id]
        return sequence.progress.tokens[sequence.progress.num_prompt :]

    def cached(self, id: int) -> int:
        return self.finish[id].usage.cached_tokens


def fresh_margin(backend: LlamaBackend, tokens: list[int]) -> float:
    """How far the two best next tokens are apart, all tokens computed anew."""
    backend.cells.truncate(0, 0)
    for start in range(0, len(tokens), backend.decoder.batch_capacity):
        part = tokens[start : start + backend.decoder.batch_capacity]
        backend.decoder.decode([Segment(0, start, part, num_outputs=int(start + len(part) == len(tokens)))])
    second, first = np.sort(backend.decoder.logits(0)[-1])[-2:]
    backend.cells.truncate(0, 0)
    return float(first - second)


def assert_as_fresh(backend: LlamaBackend, prompt: list[int], answer: list[int]) -> None:
    """The answer is the one of an empty cache, up to a place where two tokens are as good."""
    recorder = Recorder(backend)
    id = recorder.ask(prompt, len(answer))
    recorder.drain()
    assert recorder.cached(id) == 0
    fresh = recorder.answer(id)
    if fresh != answer:
        at = next(i for i, pair in enumerate(zip(fresh, answer, strict=True)) if pair[0] != pair[1])
        assert fresh_margin(backend, prompt + fresh[:at]) < TOLERANCE, f"token {at} of the answer is another"


def prompt_of(backend: LlamaBackend, seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(10, backend.vocab.size, length)]


def test_every_turn_of_four_chats_at_once_answers_as_if_it_were_fresh(backend: LlamaBackend) -> None:
    recorder, chats = Recorder(backend), [prompt_of(backend, seed, 40 + 9 * seed) for seed in range(4)]
    answered: list[tuple[list[int], list[int]]] = []
    for turn in range(4):
        ids = [recorder.ask(chat) for chat in chats]
        recorder.drain()
        for number, id in enumerate(ids):
            answered.append((chats[number], recorder.answer(id)))
            if turn:
                assert recorder.cached(id) >= len(chats[number]) - 7, "only the new turn and one token are computed"
            chats[number] = [*chats[number], *recorder.answer(id), *prompt_of(backend, 100 * turn + number, 6)]
    for prompt, answer in answered:
        assert_as_fresh(backend, prompt, answer)


def test_a_burst_that_shares_a_prefix_answers_as_if_each_were_fresh(backend: LlamaBackend) -> None:
    recorder, prefix = Recorder(backend), prompt_of(backend, 1, 200)
    prompts = [[*prefix, *prompt_of(backend, 50 + number, 1 + number)] for number in range(8)]
    ids = [recorder.ask(prompt) for prompt in prompts]
    recorder.drain()
    assert [recorder.cached(id) >= 200 for id in ids] == [False, *[True] * 7]
    for id, prompt in zip(ids, prompts, strict=True):
        assert_as_fresh(backend, prompt, recorder.answer(id))


@pytest.mark.parametrize("num_chats", [1, 3])
def test_messages_that_are_computed_as_tiles_are_answered_as_if_fresh(
    backend: LlamaBackend, num_chats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(backend)
    chats = [prompt_of(backend, 200 + number, 300 + number) for number in range(num_chats)]
    ids = [recorder.ask(chat, 2) for chat in chats]
    recorder.drain()
    turns = [
        [*chat, *recorder.answer(id), *prompt_of(backend, 300 + number, 20 + 9 * number)]
        for number, (id, chat) in enumerate(zip(ids, chats, strict=True))
    ]
    costs = recorder.engine._cycle._planner._pace.cost._model
    costs.rates = 1e-3, 1e-6, 1e-3, 1e-9  # outside a tile, tokens before a row cost most
    ids = [recorder.ask(turn) for turn in turns]
    decode = backend.decoder.decode
    computed: list[tuple[int, int]] = []

    def watched(segments: Many[Segment], *, within_s: float | None = None) -> bool:
        computed.extend((each.start, len(each.tokens)) for each in segments)
        return decode(segments, within_s=within_s)

    monkeypatch.setattr(backend.decoder, "decode", watched)
    recorder.drain()
    assert (len(turns[0]) - backend.decoder.tile, backend.decoder.tile) in computed
    assert recorder.cached(ids[0]) == len(turns[0]) - 21, "what it was told does not depend on that"
    for id, turn in zip(ids, turns, strict=True):
        assert_as_fresh(backend, turn, recorder.answer(id))


def test_a_prefix_copied_from_a_running_slot_changes_neither_answer(backend: LlamaBackend) -> None:
    recorder, prompt = Recorder(backend), prompt_of(backend, 2, 150)
    first = recorder.ask(prompt, 40)
    for _ in range(10):
        recorder.engine.step()
    second = recorder.ask([*prompt[:120], *prompt_of(backend, 3, 5)], 40)
    recorder.drain()
    assert recorder.cached(second) == 120
    assert_as_fresh(backend, prompt, recorder.answer(first))
    assert_as_fresh(backend, [*prompt[:120], *prompt_of(backend, 3, 5)], recorder.answer(second))


def test_slots_with_idle_ones_between_them_answer_alike_and_leave_those_as_they_were(backend: LlamaBackend) -> None:
    recorder = Recorder(backend)
    prompts = [prompt_of(backend, 10 + slot, 30) for slot in range(4)]
    ids = [recorder.ask(prompt, 2 if slot in (1, 2) else 7) for slot, prompt in enumerate(prompts)]
    recorder.drain()
    again = recorder.ask(prompts[1] + recorder.answer(ids[1]), 20)
    recorder.drain()
    assert recorder.cached(again) == 31, "slot 1 was given throw-away tokens, which it must have lost again"
    for id in (*ids, again):
        sequence = recorder.sequences[id]
        assert_as_fresh(backend, sequence.progress.tokens[: sequence.progress.num_prompt], recorder.answer(id))


def test_streams_that_move_side_by_side_answer_alike(backend: LlamaBackend) -> None:
    recorder = Recorder(backend)
    ids = [recorder.ask(prompt_of(backend, 20 + slot, 30), 2 if slot in (1, 2) else 60) for slot in range(4)]
    recorder.drain()
    last = recorder.sequences[ids[3]]
    again = recorder.ask([*last.progress.tokens[: last.progress.num_prompt], *recorder.answer(ids[3])])
    recorder.drain()
    assert recorder.cached(again) == 89, "what moved is found where it is now"
    for id in (*ids, again):
        sequence = recorder.sequences[id]
        assert_as_fresh(backend, sequence.progress.tokens[: sequence.progress.num_prompt], recorder.answer(id))


def scores(backend: LlamaBackend, asked: list[tuple[list[int], int]], *, cache: bool) -> list[tuple[list[float], int]]:
    """Of each prompt's tokens from that one on, all asked together; and how many were cached."""
    told: dict[int, list[float]] = {}
    cached: dict[int, int] = {}

    def emit(output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            told.setdefault(id, []).extend(each.logprob for each in delta.prompt_logprobs)
            if delta.finish is not None:
                cached[id] = delta.finish.usage.cached_tokens

    engine = build_engine(backend, emit, sampler=sampler(), tiers=Tiers(2**26))
    for id, (tokens, start) in enumerate(asked):
        reported = ReportOptions(prompt_logprobs=0, scored_from=start if cache else 0)
        reuse = Reuse(cache, pauses=[start - 1])
        engine.submit(Sequence(Request(id, tokens, sampling=GREEDY, max_tokens=0, reported=reported, reuse=reuse)))
    drain(engine)
    return [(told[id][0 if cache else start :], cached[id]) for id, (_, start) in enumerate(asked)]


def check_texts_behind_one_prompt(backend: LlamaBackend) -> None:
    head = prompt_of(backend, 5, 90)
    asked = [(head + prompt_of(backend, seed, length), 90) for seed, length in ((6, 3), (7, 1), (6, 9), (8, 4), (9, 5))]
    together, alone = scores(backend, asked, cache=True), scores(backend, asked, cache=False)
    for (found, _), (expected, _) in zip(together, alone, strict=True):
        assert found == pytest.approx(expected, abs=0.02)
    assert [cached for _, cached in together[1:]].count(89) >= 3, "the prompt is computed once, or nearly so"


def test_texts_behind_one_prompt_have_the_scores_that_they_have_alone(backend: LlamaBackend) -> None:
    check_texts_behind_one_prompt(backend)


FAMILIES = [families.write_sliding_window, families.write_recurrent, families.write_hybrid]


@pytest.fixture(
    scope="module",
    params=[(write, mode) for write in FAMILIES for mode in ("on", "off")],
    ids=lambda case: f"{case[0].__name__.removeprefix('write_')}-flash-{case[1]}",
)
def strict(
    request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    """A backend whose memory cannot lose its tail."""
    write: Callable[[Path], Path] = request.param[0]
    path = write(tmp_path_factory.mktemp("strict") / "model.gguf")
    with opened(loaded_library, path, flash_attn=request.param[1]) as backend:
        assert not backend.cells.can_rewind
        yield backend


def test_texts_behind_one_prompt_are_scored_on_a_memory_that_cannot_lose_a_tail(strict: LlamaBackend) -> None:
    check_texts_behind_one_prompt(strict)


def test_a_memory_that_cannot_lose_a_tail_goes_back_to_a_checkpoint(strict: LlamaBackend) -> None:
    recorder, prompt = Recorder(strict), prompt_of(strict, 4, 60)
    first = recorder.ask(prompt, 200)
    recorder.drain()
    longer = [*prompt, *recorder.answer(first), 20, 21]
    asked = [prompt, longer, [*prompt[:59], 22, 23], [*prompt[:30], 22]]
    ids = [recorder.ask(each) for each in asked]
    recorder.drain()
    assert recorder.answer(ids[0]) == recorder.answer(first)[:12]
    for id, each in zip(ids, asked, strict=True):
        assert_as_fresh(strict, each, recorder.answer(id))
    assert [recorder.cached(id) for id in ids] == [59, 259, 59, 0]


def test_chats_whose_last_answer_reads_otherwise_compute_little_again_on_every_memory(strict: LlamaBackend) -> None:
    """Templates drop thoughts and spaces, so a turn begins where the last answer began."""
    recorder, chats = Recorder(strict), [prompt_of(strict, 20 + number, 60) for number in range(6)]
    repeated = computed_again = 0
    answered: list[tuple[list[int], list[int]]] = []
    for turn in range(5):
        ids = []
        for number, chat in enumerate(chats):
            recorder.sequences[len(recorder.sequences)] = sequence = Sequence(
                Request(
                    len(recorder.sequences),
                    [*chat, 5, 6],
                    sampling=GREEDY,
                    max_tokens=8,
                    ending=Ending(ignore_eos=True),
                    reuse=Reuse(pauses=(len(chat),)),
                )
            )
            recorder.engine.submit(sequence)
            ids.append(sequence.id)
            if number % 2:
                recorder.drain()
        recorder.drain()
        for number, id in enumerate(ids):
            answered.append(([*chats[number], 5, 6], recorder.answer(id)))
            if turn:
                repeated += len(chats[number]) - 12
                computed_again += max(0, len(chats[number]) - 12 - recorder.cached(id))
            chats[number] = [*chats[number], *prompt_of(strict, 100 * turn + number, 12)]
    assert computed_again < 0.1 * repeated
    for prompt, answer in answered[:: len(chats) - 1]:  # of every chat and every turn
        assert_as_fresh(strict, prompt, answer)


def test_a_burst_shares_its_beginning_on_every_memory(strict: LlamaBackend) -> None:
    recorder, prefix = Recorder(strict), prompt_of(strict, 1, 200)
    prompts = [[*prefix, *prompt_of(strict, 50 + number, 2 + number)] for number in range(8)]
    ids = [recorder.ask(prompt) for prompt in prompts]
    recorder.drain()
    assert [recorder.cached(id) >= 200 for id in ids] == [False, *[True] * 7]
    for id, prompt in zip(ids, prompts, strict=True):
        assert_as_fresh(strict, prompt, recorder.answer(id))


def converse(backend: LlamaBackend) -> list[tuple[list[int], list[int]]]:
    """Chats, bursts, forks and a large request, more than fit at once: (prompt, answer) of each."""
    recorder, prefix = Recorder(backend), prompt_of(backend, 1, 120)
    chats = [[*prefix, *prompt_of(backend, 30 + number, 5 + 20 * number)] for number in range(6)]
    asked: list[tuple[list[int], int]] = []
    for turn in range(3):
        ids = [recorder.ask(chat, 10) for chat in chats] + [recorder.ask(prompt_of(backend, 60 + turn, 250), 20)]
        recorder.drain()
        asked += [
            (recorder.sequences[id].progress.tokens[: recorder.sequences[id].progress.num_prompt], id) for id in ids
        ]
        for number, id in enumerate(ids[:-1]):
            if turn:
                assert recorder.cached(id) >= 120
            chats[number] = [*chats[number], *recorder.answer(id), *prompt_of(backend, 100 * turn + number, 4)]
    return [(prompt, recorder.answer(id)) for prompt, id in asked]


def test_a_mixture_of_experts_is_reused_like_any_attention(loaded_library: library.Library, tmp_path: Path) -> None:
    with opened(loaded_library, families.write_mixture(tmp_path / "model.gguf")) as backend:
        assert backend.cells.can_rewind
        for prompt, answer in converse(backend):
            assert_as_fresh(backend, prompt, answer)


@pytest.mark.parametrize("num_cells", [512, 1024])
def test_in_a_unified_cache_everybody_waits_for_room_and_answers_as_if_fresh(
    loaded_library: library.Library, tiny_model: Path, num_cells: int
) -> None:
    with opened(loaded_library, tiny_model, num_cells=num_cells) as backend:
        assert backend.cells.num_cells == num_cells
        for prompt, answer in converse(backend):
            assert_as_fresh(backend, prompt, answer)


def test_a_unified_cache_is_compacted_under_running_requests(loaded_library: library.Library, tiny_model: Path) -> None:
    with opened(loaded_library, tiny_model, num_cells=2048, ctx=2048) as backend:
        recorder = Recorder(backend)
        large = recorder.ask(prompt_of(backend, 1, 1800), 4)
        recorder.engine.step()
        small = recorder.ask(prompt_of(backend, 2, 20), 100)
        while large not in recorder.finish:
            recorder.engine.step()
        pool = recorder.engine.kv.residency.pool
        assert pool is not None
        assert pool.peak > 1800
        other = recorder.ask(prompt_of(backend, 3, 20), 20)
        recorder.engine.step()
        assert pool.peak < 200
        recorder.drain()
        for id in (small, other):
            sequence = recorder.sequences[id]
            assert_as_fresh(backend, sequence.progress.tokens[: sequence.progress.num_prompt], recorder.answer(id))


def test_a_memory_that_cannot_lose_a_tail_has_no_unified_layout(
    loaded_library: library.Library, tmp_path: Path
) -> None:
    path = families.write_recurrent(tmp_path / "model.gguf")
    refused = pytest.raises(LoadFailed, match="recurrent memory has no unified layout")
    with refused, opened(loaded_library, path, num_cells=512):
        pass


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0"])
@pytest.mark.parametrize("num_cells", [None, 1024])
def test_a_quantized_cache_answers_as_if_fresh_and_takes_less(
    loaded_library: library.Library, tmp_path: Path, kv_type: KvType, num_cells: int | None
) -> None:
    path = write_llama(tmp_path / "model.gguf", n_embd=128, n_head=4, n_kv=2)
    with opened(loaded_library, path, num_cells=num_cells, kv_type=kv_type) as backend:
        answers = converse(backend)
        for prompt, answer in answers:
            assert_as_fresh(backend, prompt, answer)
        backend.cells.truncate(0, 0)
        backend.decoder.decode([Segment(0, 0, answers[0][0], num_outputs=1)])
        assert len(backend.cells.save(0)) < 0.6 * len(answers[0][0]) * 2 * 2 * 2 * 64


def test_a_cache_that_llama_cpp_cannot_make_says_what_to_change(
    loaded_library: library.Library, tiny_model: Path
) -> None:
    with pytest.raises(LoadFailed, match="--kv-type f16"), opened(loaded_library, tiny_model, kv_type="q8_0"):
        pass


def test_a_context_that_shifts_goes_on_with_its_sense_and_spoils_nothing(
    loaded_library: library.Library, tiny_model: Path
) -> None:
    with opened(loaded_library, tiny_model, ctx=256) as backend:
        recorder = Recorder(backend, context_shift=True)
        prompt, other = prompt_of(backend, 1, 100), prompt_of(backend, 2, 30)
        long, short = recorder.ask(prompt, 700, keep=20), recorder.ask(other, 100)
        recorder.drain()
        assert recorder.finish[long].usage.completion_tokens == 700
        assert recorder.finish[long].usage.shifted_tokens >= 700 - 256 + 100
        again = recorder.ask(prompt, 20)
        recorder.drain()
        assert recorder.cached(again) == 20
        for id, asked in ((short, other), (again, prompt)):
            assert_as_fresh(backend, asked, recorder.answer(id))


def test_a_shifted_cache_reads_as_if_its_tokens_stood_where_they_moved_to(
    loaded_library: library.Library, tmp_path: Path
) -> None:
    """In a model of one layer keys and values depend on token and place only, so nothing of the past is left."""
    path = write_llama(tmp_path / "model.gguf", n_layer=1)
    with opened(loaded_library, path) as backend:
        tokens = prompt_of(backend, 1, 100)
        backend.decoder.decode([Segment(0, 0, tokens[:90], num_outputs=0)])
        backend.cells.shift(0, 10, 40)
        backend.decoder.decode([Segment(0, 50, tokens[90:], num_outputs=1)])
        shifted = backend.decoder.logits(0)[-1].copy()
        backend.decoder.decode([Segment(1, 0, tokens[:10] + tokens[50:], num_outputs=1)])
        assert np.abs(shifted - backend.decoder.logits(0)[-1]).max() < 0.02  # keys are F16, and were turned twice


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0"])
def test_quantized_keys_move_if_llama_cpp_can_turn_them(
    loaded_library: library.Library, tmp_path: Path, kv_type: KvType
) -> None:
    """Those of heads of 32 end the process: they are never moved."""
    path = write_llama(tmp_path / "turned.gguf", n_layer=1, n_embd=256, n_head=4, n_kv=2)
    with opened(loaded_library, path, kv_type=kv_type) as backend:
        assert backend.cells.can_shift
        tokens = prompt_of(backend, 1, 100)
        backend.decoder.decode([Segment(0, 0, tokens[:90], num_outputs=0)])
        backend.cells.shift(0, 10, 40)
        backend.decoder.decode([Segment(0, 50, tokens[90:], num_outputs=1)])
        shifted = backend.decoder.logits(0)[-1].copy()
        backend.decoder.decode([Segment(1, 0, tokens[:10] + tokens[50:], num_outputs=1)])
        fresh = backend.decoder.logits(0)[-1]
        assert np.abs(shifted - fresh).max() < (0.1 if kv_type == "q8_0" else 1.0) * fresh.std(), "quantized twice"
    with opened(loaded_library, families.write_wide_heads(tmp_path / "not.gguf"), kv_type=kv_type) as backend:
        assert not backend.cells.can_shift
        with pytest.raises(InvalidParameter, match="q8_0"):
            build_engine(backend, lambda _: None, context_shift=True)


def give_back(backend: LlamaBackend) -> None:
    """A prompt's slot is taken, erased, and given back as another one while a request runs beside it."""
    recorder, prompt = Recorder(backend), prompt_of(backend, 1, 100)
    recorder.ask(prompt)
    recorder.drain()
    slots = recorder.engine.slots
    entry = slots.save(0)
    assert slots.erase(0) == len(entry.tokens)
    other = recorder.ask(prompt_of(backend, 2, 60), 20)
    recorder.engine.step()
    slots.restore(2, entry)
    recorder.engine.check_integrity()
    longer = [*entry.tokens.tolist(), *prompt_of(backend, 3, 10)]
    again = recorder.ask(longer)
    recorder.drain()
    assert recorder.cached(again) == len(entry.tokens)
    assert_as_fresh(backend, longer, recorder.answer(again))
    assert_as_fresh(backend, prompt_of(backend, 2, 60), recorder.answer(other))


def test_a_slot_that_a_client_gives_back_answers_as_if_fresh_on_every_memory(strict: LlamaBackend) -> None:
    give_back(strict)


@pytest.mark.parametrize("num_cells", [None, 512])
def test_a_slot_that_a_client_gives_back_answers_as_if_fresh_in_every_layout(
    loaded_library: library.Library, tiny_model: Path, num_cells: int | None
) -> None:
    with opened(loaded_library, tiny_model, num_cells=num_cells) as backend:
        give_back(backend)


def test_what_a_failed_decode_left_behind_is_cut_off_too(backend: LlamaBackend) -> None:
    backend.cells.truncate(0, 0)
    backend.decoder.decode([Segment(0, 0, prompt_of(backend, 1, 9), num_outputs=0)])
    backend.cells._tails.lengths[0] = (
        4  # as when a batch fails after its first part: its cells are there, and nobody counted them
    )
    backend.cells.truncate(0, 4)
    assert backend.cells.length(0) == 4
    backend.cells.truncate(0, 0)
