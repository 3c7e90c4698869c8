"""Which texts are computed together, and who has the next turn: no model, no thread, no clock."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.backend import BackendError, Piece, Vectors
from localllm.engine.building import build_engine
from localllm.engine.embedding.embedder import Embedder, TextOutput, shaped
from localllm.engine.embedding.encoder import EncoderEngine
from localllm.engine.embedding.texts import Limits, TextJob, TextQueue
from localllm.engine.scheduling.aging import AGED_S
from localllm.engine.spans import Spans
from localllm.errors import InternalError, LoadFailed, RequestTimeout
from tests.fakes import FakeBackend, illustrated

WHOLE = Limits(splits_texts=False, max_texts=8, together_tokens=100)
SPLIT = Limits(splits_texts=True, max_texts=8, together_tokens=100)


NONSENSE = 67
"""A token of which the model makes no number."""


class FakeEmbedder:
    """A vector is (sum, count) of a text's tokens. Refuses what llama.cpp would end the process for."""

    def __init__(
        self, *, splits_texts: bool = False, poison: int | None = None, seconds_per_token: float = 0.0
    ) -> None:
        self.splits_texts = splits_texts
        self.max_text_tokens = self.batch_tokens = 4096
        self.max_texts = 8
        self.together_tokens = 250
        self.dimensions = 2
        self.now_s = 0.0
        self.batches: list[list[Piece]] = []
        self.begun: dict[int, list[int]] = {}
        self._poison = poison
        self._seconds_per_token = seconds_per_token

    def set_threads(self, threads: int) -> None: ...

    def compute(self, pieces: Sequence[Piece]) -> list[Vectors | None]:
        assert 0 < sum(len(piece.tokens) for piece in pieces) <= self.batch_tokens
        places = [piece.place for piece in pieces]
        assert len(set(places)) == len(places), "two texts in one place"
        assert all(0 <= place < self.max_texts for place in places)
        self.batches.append(list(pieces))
        self.now_s += self._seconds_per_token * sum(len(piece.tokens) for piece in pieces)
        if any(self._poison in piece.tokens for piece in pieces):
            for place in places:
                self.forget(place)
            raise BackendError("a token that nobody can compute")
        return [self._advance(piece) for piece in pieces]

    def _advance(self, piece: Piece) -> Vectors | None:
        assert piece.tokens, "an empty piece"
        assert self.splits_texts or (piece.start == 0 and piece.is_last), "only whole texts"
        tokens = self.begun.setdefault(piece.place, [])
        assert piece.start == len(tokens), "a gap, or a text in somebody else's place"
        tokens.extend(piece.tokens)
        if not piece.is_last:
            return None
        self.forget(piece.place)
        return np.array([[np.nan if NONSENSE in tokens else sum(tokens), len(tokens)]], np.float32)

    def forget(self, place: int) -> None:
        self.begun.pop(place, None)


class Outputs:
    """What a worker would send."""

    def __init__(self) -> None:
        self.vectors: dict[int, dict[int, list[float]]] = {}
        self.ended: list[int] = []
        self.errors: dict[int, Exception] = {}

    def __call__(self, output: TextOutput) -> None:
        assert output.id not in self.ended, "an output after the last"
        if output.is_last:
            self.ended.append(output.id)
        if output.error is not None:
            self.errors[output.id] = output.error
        for number, vectors in output.items:
            texts = self.vectors.setdefault(output.id, {})
            assert number not in texts, "a text twice"
            texts[number] = vectors[0].tolist()


def embedder_with(backend: FakeEmbedder, outputs: Outputs) -> Embedder:
    return Embedder(lambda: backend, outputs, clock=lambda: backend.now_s)


def drain(embedder: Embedder, limit: int = 10_000) -> int:
    for steps in range(limit):
        if not embedder.has_work:
            return steps
        embedder.step()
    raise AssertionError("the texts never end")


def test_texts_share_a_batch_up_to_its_tokens_and_come_in_their_order() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 40, [2] * 40, [3] * 40]))
    assert [piece.tokens[0] for _, piece in queue.plan(100, WHOLE, 0.0)] == [1, 2]
    assert [piece.tokens[0] for _, piece in queue.plan(100, WHOLE, 0.0)] == [3]


def test_a_text_that_is_longer_than_a_batch_is_computed_alone_where_texts_are_whole() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 300, [2]]))
    assert [len(piece.tokens) for _, piece in queue.plan(100, WHOLE, 0.0)] == [300]


def test_one_text_waits_for_no_more_than_one_batch_of_ten_thousand() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 50] * 10_000))
    for _ in range(30):
        queue.plan(100, WHOLE, 0.0)
    queue.add(TextJob(2, [[2] * 50]))
    assert [text.job.id for text, _ in queue.plan(100, WHOLE, 0.0)] in ([1, 2], [2, 1])


def test_two_large_requests_share_every_batch() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 10] * 100))
    queue.plan(100, WHOLE, 0.0)
    queue.add(TextJob(2, [[2] * 10] * 100))
    ids = [text.job.id for _ in range(5) for text, _ in queue.plan(80, WHOLE, 0.0)]
    assert abs(ids.count(1) - ids.count(2)) <= 1


def test_the_lower_priority_goes_first() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 50] * 4))
    queue.add(TextJob(2, [[2] * 50] * 4, priority=-1))
    ids = [text.job.id for _ in range(4) for text, _ in queue.plan(100, WHOLE, 0.0)]
    assert ids == [2, 2, 2, 2, 1, 1, 1, 1]


def test_no_job_is_passed_for_ever_by_those_that_rank_before_it() -> None:
    """Neither by priority, nor by those that come new and have had the fewest tokens, nor by shorter texts."""
    queue = TextQueue()
    patient = [TextJob(0, [[1] * 90] * 3, priority=1000), TextJob(1, [[2] * 60] * 3), TextJob(2, [[3] * 300] * 3)]
    for job in patient:
        queue.add(job)
    now_s, num_batches, ids = 0.0, 0, itertools.count(3)
    while any(not job.is_over for job in patient):
        now_s, num_batches = now_s + 1, num_batches + 1
        while len(queue.jobs) < 20:
            queue.add(TextJob(next(ids), [[4] * 40] * 2, priority=-1000, created_s=now_s))
        for text, piece in queue.plan(100, Limits(True, 4, 100), now_s):
            if piece.is_last:
                queue.ended(text)
        if now_s < AGED_S:
            assert not any(job.num_begun for job in patient), "rank alone decides until then"
        assert num_batches < 600, "somebody waits for ever"


def test_a_long_text_that_is_split_lets_short_ones_pass() -> None:
    queue = TextQueue()
    queue.add(TextJob(1, [[1] * 1000]))
    queue.plan(100, SPLIT, 0.0)
    queue.add(TextJob(2, [[2] * 10]))
    assert [(text.job.id, len(piece.tokens)) for text, piece in queue.plan(100, SPLIT, 0.0)] == [(1, 50), (2, 10)]


@given(
    jobs=st.lists(st.lists(st.integers(1, 700), min_size=1, max_size=12), min_size=1, max_size=6),
    splits=st.booleans(),
    late=st.integers(0, 5),
    cancelled=st.sets(st.integers(0, 5)),
    seconds_per_token=st.sampled_from([0.0, 0.0005, 0.01]),
)
def test_every_text_is_computed_once_and_whole(
    jobs: list[list[int]], splits: bool, late: int, cancelled: set[int], seconds_per_token: float
) -> None:
    backend, outputs = FakeEmbedder(splits_texts=splits, seconds_per_token=seconds_per_token), Outputs()
    embedder = embedder_with(backend, outputs)
    for id, lengths in enumerate(jobs):
        if id == late:
            embedder.step(num_streams=id % 2)
        embedder.add(TextJob(id, [[id + 1] * length for length in lengths]))
    embedder.step()
    for id in cancelled:
        embedder.cancel(id)
    drain(embedder)
    for id, lengths in enumerate(jobs):
        wanted = {number: [(id + 1) * length, length] for number, length in enumerate(lengths)}
        if id not in cancelled:
            assert outputs.vectors[id] == wanted
        assert outputs.vectors.get(id, {}).items() <= wanted.items()
    assert backend.begun == {}
    assert set(range(len(jobs))) - cancelled <= set(outputs.ended)


def test_no_batch_is_planned_longer_than_a_step_or_two_if_nothing_streams_once_the_speed_is_known() -> None:
    backend, outputs = FakeEmbedder(splits_texts=True, seconds_per_token=0.002), Outputs()
    embedder = embedder_with(backend, outputs)
    embedder.add(TextJob(1, [[1] * 5000]))
    for streams in (0, 0, 0, 1, 1, 0, 2):
        before_s = backend.now_s
        embedder.step(streams)
        assert backend.now_s - before_s <= (0.1 if streams else 0.6) + 1e-9
    assert len(backend.batches[-1][0].tokens) >= 40, "nor much shorter"


def test_no_more_is_put_together_than_is_fastest_however_fast_the_machine() -> None:
    backend, outputs = FakeEmbedder(seconds_per_token=1e-6), Outputs()
    embedder = embedder_with(backend, outputs)
    embedder.add(TextJob(1, [[1] * 100] * 50))
    drain(embedder)
    assert max(sum(len(piece.tokens) for piece in batch) for batch in backend.batches) == 200


def test_a_text_that_cannot_be_computed_fails_its_own_request_only() -> None:
    for splits in (False, True):
        backend, outputs = FakeEmbedder(splits_texts=splits, poison=66), Outputs()
        embedder = embedder_with(backend, outputs)
        embedder.add(TextJob(1, [[1] * 20, [2] * 20]))
        embedder.add(TextJob(2, [[5, 66], [3] * 20]))
        embedder.add(TextJob(3, [[4] * 900]))
        drain(embedder)
        assert set(outputs.errors) == {2}
        assert isinstance(outputs.errors[2], InternalError)
        assert "text 0" in str(outputs.errors[2])
        assert (outputs.vectors[1], outputs.vectors[3]) == ({0: [20, 20], 1: [40, 20]}, {0: [3600, 900]})


def test_a_vector_that_is_made_of_no_numbers_fails_its_own_request_only() -> None:
    backend, outputs = FakeEmbedder(), Outputs()
    embedder = embedder_with(backend, outputs)
    embedder.add(TextJob(1, [[1] * 20, [2] * 20]))
    embedder.add(TextJob(2, [[3] * 5, [5, NONSENSE], [3] * 20, [4] * 600]))
    drain(embedder)
    assert set(outputs.errors) == {2}
    assert "the vector of text 1 is not finite" in str(outputs.errors[2])
    assert outputs.vectors[1] == {0: [20, 20], 1: [40, 20]}


def test_a_request_past_its_time_ends_with_what_was_left() -> None:
    backend, outputs = FakeEmbedder(seconds_per_token=0.001), Outputs()
    embedder = embedder_with(backend, outputs)
    embedder.add(TextJob(1, [[1] * 100] * 50, deadline_s=1.0))
    embedder.add(TextJob(2, [[1] * 10]))
    drain(embedder)
    assert isinstance(outputs.errors[1], RequestTimeout)
    assert "of 50 texts were not computed within the 1 s" in str(outputs.errors[1])
    assert outputs.vectors[2] == {0: [10, 10]}


def test_a_request_none_of_whose_texts_is_begun_in_its_time_is_refused_and_one_that_was_begun_ends() -> None:
    backend, outputs = FakeEmbedder(seconds_per_token=0.001), Outputs()
    embedder = embedder_with(backend, outputs)
    embedder.add(TextJob(1, [[1] * 100] * 50, queue_deadline_s=0.5, priority=-1))
    embedder.add(TextJob(2, [[2] * 100], queue_deadline_s=0.5))
    drain(embedder)
    assert set(outputs.errors) == {2}
    assert "none of 1 texts began within the 0.5 s that a request may wait" in str(outputs.errors[2])
    assert len(outputs.vectors[1]) == 50


def test_a_context_that_cannot_be_made_fails_those_who_ask_and_is_tried_again() -> None:
    backend, outputs, tries = FakeEmbedder(), Outputs(), iter([False, True])

    def make() -> FakeEmbedder:
        if not next(tries):
            raise LoadFailed("no memory")
        return backend

    embedder = Embedder(make, outputs)
    embedder.add(TextJob(1, [[1]]))
    embedder.step()
    assert isinstance(outputs.errors[1], LoadFailed)
    embedder.add(TextJob(2, [[1]]))
    drain(embedder)
    assert outputs.vectors == {2: {0: [1, 1]}}


def test_the_engine_computes_texts_between_its_steps_and_alone() -> None:
    backend, outputs = FakeEmbedder(), Outputs()
    embedder = embedder_with(backend, outputs)
    for engine in (build_engine(FakeBackend(), lambda _: None, beside=embedder), EncoderEngine(embedder)):
        engine.call_soon(lambda: embedder.add(TextJob(1, [[1] * 400] * 3)))
        engine.call_soon(lambda: embedder.add(TextJob(2, [[2]])))
        for _ in range(12):  # a stop that comes too soon would be seen as a missing text
            engine.call_soon(embedder.step)
        engine.stop()
        engine.run()
        assert outputs.vectors == {1: {number: [400, 400] for number in range(3)}, 2: {0: [2, 1]}}
        outputs.vectors.clear()
        outputs.ended.clear()


def test_vectors_are_cut_before_they_are_normalized_and_zeros_stay_zeros() -> None:
    vectors = np.array([[3, 4, 12], [0, 0, 0]], np.float32)
    assert shaped(vectors, TextJob(1, [], dimensions=2, normalize=True)).tolist() == [
        [np.float32(0.6), np.float32(0.8)],
        [0, 0],
    ]
    assert shaped(vectors, TextJob(1, [], dimensions=None)).tolist() == vectors.tolist()
    assert shaped(vectors, TextJob(1, [], normalize=True)).dtype == np.float32


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), max_size=3)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 20),
)
def test_a_text_with_pictures_is_computed_alone_cut_at_its_pictures_and_never_within_one_that_is_whole(
    texts: list[tuple[int, list[tuple[int, int]]]], budget: int
) -> None:
    """Others are computed in the batches between."""
    made = [illustrated([1] * size, pictures) for size, pictures in texts]
    made = [(ids or [1], spans) for ids, spans in made]
    queue = TextQueue()
    for number, (ids, spans) in enumerate(made):
        queue.add(TextJob(number, [ids], spans=[Spans(spans)] if spans else ()))
    reached = dict.fromkeys(range(len(made)), 0)
    alone = 0
    while queue.has_work:
        batch = queue.plan(budget, SPLIT, 0.0)
        assert batch
        places = [text.place for text, _ in batch]
        assert len(set(places)) == len(places)
        for text, piece in batch:
            ids, spans = made[text.job.id]
            assert piece.start == reached[text.job.id]
            end = reached[text.job.id] = piece.start + len(piece.tokens)
            assert list(piece.tokens) == ids[piece.start : end]
            assert all((token < 0) == (piece.media is not None) for token in piece.tokens), "tokens or rows"
            if spans:
                assert len(batch) == 1
                cut = [extent for span in spans if (extent := span.extent) and extent.start < end < extent.end]
                assert not cut
                before = [span.of for span in spans if span.end <= piece.start]
                assert piece.num_saved == sum(len(of.ids) - of.num_positions for of in before)
            if piece.is_last:
                queue.ended(text)
        alone = alone + 1 if batch[0][0].spans else 0
        waiting = [job for job in queue.jobs if not job.spans and job.num_begun == 0 and len(job.texts[0]) <= budget]
        assert alone < 2 or not waiting or batch[0][1].start == 0 or batch[0][1].is_last
    assert all(reached[number] == len(ids) for number, (ids, _) in enumerate(made))


def test_a_batch_that_fails_beside_a_text_with_pictures_does_not_lose_that() -> None:
    ids, spans = illustrated([1] * 9, [(3, 0)])
    queue = TextQueue()
    pictured = TextJob(1, [ids], spans=[Spans(spans)])
    queue.add(pictured)
    (first,) = queue.plan(100, SPLIT, 0.0)
    queue.add(TextJob(2, [[1]]))
    queue.add(TextJob(3, [[2]]))
    others = queue.plan(100, SPLIT, 0.0)
    assert first[1].tokens == [1, 1, 1]
    assert [text.job.id for text, _ in others] == [2, 3]
    queue.compute_alone([text for text, _ in others])
    done: list[int] = []
    while queue.has_work:
        ((text, piece),) = queue.plan(100, SPLIT, 0.0)
        if piece.is_last:
            queue.ended(text)
            done.append(text.job.id)
    assert done == [1, 2, 3]
