"""Which connection fetches which bytes, and reactions to responses and failures, without sockets, threads or clocks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localllm.errors import AccessDenied, PullFailed
from localllm.registry.fetch.flight import STALL_BYTES, STALL_S, Flight
from localllm.registry.fetch.net import Hop, Reply
from localllm.registry.fetch.pacing import Backoff, Retryable
from localllm.registry.fetch.partial import Record
from localllm.registry.fetch.ranges import MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Ranges
from localllm.registry.fetch.sharing import DEAD_S, SLOW_S
from localllm.registry.fetch.silence import Silence
from localllm.registry.fetch.transfer import MAX_IGNORED_RANGES, MAX_RESTARTS, FileChanged, Transfer
from localllm.registry.names.digest import Digest
from localllm.registry.remote import RemoteFile

MIB = 1024 * 1024
SIZE = 100 * MIB
URL = "https://models.example/m.gguf"
DIGEST = Digest(hashlib.sha256(b"right").hexdigest())
OTHER = Digest(hashlib.sha256(b"wrong").hexdigest())


def wanted(size: int | None = SIZE, digest: Digest | None = DIGEST) -> RemoteFile:
    return RemoteFile(file_name="m.gguf", url=URL, size_bytes=size, digest=digest)


def reply(status: int, url: str = URL, /, **headers: str | int) -> Reply:
    fields = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return Reply(status, httpx.Headers(fields), (), Hop(httpx.URL(url), False, None))


def part(flight: Flight, size: int = SIZE, etag: str = '"one"', url: str = URL) -> Reply:
    assert flight.asked_end is not None
    end = min(flight.asked_end, size)
    return reply(206, url, content_range=f"bytes {flight.start}-{end - 1}/{size}", etag=etag)


def launch(transfer: Transfer, now: float = 0.0, connections: int = 4) -> Flight:
    flight = transfer.next_flight(now, connections)
    assert flight is not None
    return flight


def begun(file: RemoteFile | None = None) -> tuple[Transfer, Flight]:
    """A transfer that has received its first response."""
    transfer = Transfer(file or wanted())
    flight = launch(transfer)
    transfer.answered(flight, part(flight))
    return transfer, flight


def test_until_the_first_answer_there_is_one_connection_and_then_as_many_as_wanted() -> None:
    transfer = Transfer(wanted(size=None))
    first = launch(transfer)
    assert transfer.next_flight(0.0, 4) is None
    transfer.answered(first, part(first))
    assert transfer.size == SIZE
    others = [launch(transfer) for _ in range(3)]
    assert [other.start for other in others] == [first.end, others[0].end, others[1].end]


@pytest.mark.parametrize(
    "headers",
    [
        {"content_range": "bytes 1-1048576/104857600"},
        {"content_range": "bytes 0-104857599/104857600"},
        {"content_range": "bytes 0-1048575/1048575"},
        {"content_range": "bytes 0-1048575/104857600", "content_length": 5},
        {"content_range": "multipart"},
        {},
    ],
)
def test_a_206_for_another_range_is_not_believed(headers: dict[str, str | int]) -> None:
    transfer = Transfer(wanted(size=None))
    flight = launch(transfer)
    with pytest.raises(Retryable):
        transfer.answered(flight, reply(206, **headers))
    assert (transfer.size, flight.pos) == (None, 0)


def test_a_server_may_send_less_than_it_was_asked_for() -> None:
    transfer = Transfer(wanted())
    flight = launch(transfer)
    transfer.answered(flight, reply(206, content_range=f"bytes 0-999/{SIZE}"))
    assert launch(transfer).start == 1000
    assert flight.room(1000) == 1000
    with pytest.raises(Retryable, match="more than it announced"):
        flight.room(1001)


@pytest.mark.parametrize("total", [SIZE - 1, SIZE + 1, 10**18])
def test_a_size_that_contradicts_the_source_ends_the_download(total: int) -> None:
    for expected in (SIZE, None):
        transfer = Transfer(wanted(size=expected))
        flight = launch(transfer)
        if expected is None and total < 10**18:
            transfer.answered(flight, part(flight, total))
        else:
            with pytest.raises(PullFailed):
                transfer.answered(flight, part(flight, total))


def test_without_a_digest_another_etag_begins_the_file_anew_once_all_flights_have_landed() -> None:
    transfer, first = begun(wanted(digest=None))
    second = launch(transfer)
    assert transfer.headers(second)["if-range"] == '"one"'
    first.moved(1000, 0.0)
    with pytest.raises(FileChanged):
        transfer.answered(second, part(second, etag='"two"'))
    transfer.changed(second)
    assert first.dropped
    assert (transfer.present, transfer.validator) == (0, None)
    assert transfer.next_flight(0.0, 4) is None  # the first one could still write
    first.moved(1000, 0.0)
    transfer.remove(first)
    assert transfer.present == 0
    assert launch(transfer).start == 0


def test_with_a_digest_another_etag_is_let_pass_because_the_digest_tells() -> None:
    transfer, first = begun()
    first.moved(1000, 0.0)
    second = launch(transfer)
    assert "if-range" not in transfer.headers(second)
    transfer.answered(second, part(second, etag='"two"'))
    assert transfer.suspect
    assert not transfer.verified(OTHER)  # begun anew
    assert (transfer.present, transfer.suspect) == (0, False)
    with pytest.raises(PullFailed, match="discarded"):
        transfer.verified(OTHER)
    assert transfer.verified(DIGEST)


def test_a_file_that_always_changes_is_given_up() -> None:
    transfer = Transfer(wanted(digest=None))
    for restart in range(MAX_RESTARTS + 1):
        flight = launch(transfer)
        transfer.answered(flight, part(flight))
        flight.moved(1000, 0.0)
        if restart < MAX_RESTARTS:
            transfer.changed(flight)
        else:
            with pytest.raises(PullFailed, match="keeps changing"):
                transfer.changed(flight)


def test_a_server_that_suddenly_sends_everything_is_asked_again_and_then_taken_at_its_word() -> None:
    transfer, first = begun()
    first.moved(1000, 0.0)
    now = 0.0
    for _ in range(MAX_IGNORED_RANGES):
        flight = launch(transfer, now)
        with pytest.raises(Retryable, match="instead of a range") as caught:
            transfer.answered(flight, reply(200, content_length=SIZE))
        transfer.failed(flight, caught.value, now, 0.5)
        now += 100
    flight = launch(transfer, now)
    with pytest.raises(FileChanged):
        transfer.answered(flight, reply(200, content_length=SIZE))
    transfer.changed(flight)
    transfer.remove(first)
    whole = launch(transfer, now)
    assert "range" not in transfer.headers(whole)
    transfer.answered(whole, reply(200, content_length=SIZE))
    assert (whole.start, whole.end, transfer.next_flight(now, 4)) == (0, SIZE, None)


def test_a_server_without_ranges_is_not_asked_twice() -> None:
    transfer = Transfer(wanted(size=None))
    flight = launch(transfer)
    transfer.answered(flight, reply(200, content_length=SIZE))
    assert (flight.end, transfer.size, transfer.next_flight(0.0, 4)) == (SIZE, SIZE, None)
    assert transfer.record() is None  # it could not be gone on with


def test_an_answer_that_does_not_say_where_it_ends_is_no_file() -> None:
    transfer = Transfer(wanted(size=None, digest=None))
    with pytest.raises(PullFailed, match="give the size"):
        transfer.answered(launch(transfer), reply(200))


def test_six_failures_in_a_row_are_the_end_and_what_brings_bytes_is_none() -> None:
    """A host that cuts every connection after a while is asked again at once."""
    transfer = Transfer(wanted(), backoff=Backoff(first_s=1, max_s=32))
    now, pauses = 0.0, []

    def fail(num_bytes: int) -> None:
        flight = launch(transfer, now)
        transfer.answered(flight, part(flight))
        flight.moved(num_bytes, now)
        transfer.failed(flight, Retryable("cut"), now, 0.0)
        pauses.append(transfer.wait_s(now))

    for num_bytes in (MIB, 100_000, 100_000, 0, 0, 0, 1000, 1000, 100_000, 0, 0, 0, 0, 0):
        fail(num_bytes)
        now += pauses[-1]
    assert pauses == [0, 0, 0, 0.5, 1, 2, 0.5, 0.5, 0, 0.5, 1, 2, 4, 8]
    with pytest.raises(PullFailed, match="after 6 attempts"):
        fail(0)


def outage(transfer: Transfer, now: float, until: float) -> float:
    """Failures without progress, each retried as soon as allowed; returns the time of the last one."""
    while now <= until:
        transfer.failed(launch(transfer, now), Retryable("no connection", is_outage=True), now, 0.0)
        now += transfer.wait_s(now)
    return now


def test_an_outage_may_last_as_long_as_the_patience_however_many_attempts_that_are() -> None:
    transfer = Transfer(wanted(), backoff=Backoff(first_s=1, max_s=8), patience_s=600)
    now = outage(transfer, 0.0, 580.0)
    flight = launch(transfer, now)
    transfer.answered(flight, part(flight))
    flight.moved(MIB, now)
    transfer.failed(flight, Retryable("gone again", is_outage=True), now, 0.0)  # something came between
    now = outage(transfer, now + transfer.wait_s(now), now + 580.0)
    with pytest.raises(PullFailed, match=r"no connection \(no data for (59\d|600) s"):
        outage(transfer, now, now + 100.0)


def test_a_patience_shorter_than_a_pause_is_used_up_and_blames_no_server() -> None:
    transfer = Transfer(wanted(), backoff=Backoff(first_s=16), patience_s=5)
    transfer.failed(launch(transfer), Retryable("no connection", is_outage=True), 0.0, 0.5)
    assert transfer.wait_s(0.0) == 5.0
    with pytest.raises(PullFailed, match=r"no connection \(no data for 5 s"):
        transfer.failed(launch(transfer, 5.0), Retryable("no connection", is_outage=True), 5.0, 0.5)


def test_a_server_is_left_alone_for_as_long_as_it_asks_within_the_patience() -> None:
    transfer = Transfer(wanted(), patience_s=600)
    busy = Retryable("busy", retry_after_s=300.0, busy=True, is_outage=True)
    transfer.failed(launch(transfer), busy, 0.0, 0.0)
    assert transfer.wait_s(0.0) == 300.0
    with pytest.raises(PullFailed, match=r"asks to be retried in 3600 s.*--download-patience-s"):
        transfer.failed(
            launch(transfer, 300.0), Retryable("busy", retry_after_s=3600.0, busy=True, is_outage=True), 300.0, 0.0
        )


@pytest.mark.parametrize(
    ("headers", "asked_s"),
    [
        ({"ratelimit": '"resolvers";r=0;t=55'}, 55.0),
        ({"ratelimit": '"api";r=0;t=55', "retry_after": 7}, 7.0),
        ({"ratelimit": "nonsense"}, None),
        ({}, None),
    ],
)
def test_when_a_rate_limit_ends_is_believed(headers: dict[str, str | int], asked_s: float | None) -> None:
    error = reply(429, **headers).retryable()
    assert error is not None
    assert (error.retry_after_s, error.busy, error.is_outage) == (asked_s, True, True)


def test_silence_is_told_from_the_second_second_on_and_once_a_second() -> None:
    silence = Silence(0.0)
    told = [silence.waited_s(tick / 10, 5) for tick in range(55)]
    assert [round(seconds) for seconds in told if seconds is not None] == [2, 3, 4, 5]
    assert silence.waited_s(5.5, 6) is None
    assert silence.waited_s(7.0, 6) is None
    assert silence.waited_s(7.6, 6) is not None
    assert silence.waited_s(8.0, None) is None
    assert silence.waited_s(8.1, 6) is None


def test_one_outage_of_all_connections_is_one_failure() -> None:
    transfer, first = begun()
    flights = [first, *(launch(transfer) for _ in range(7))]
    for flight in flights:
        transfer.failed(flight, Retryable("gone"), 0.0, 0.0)
    assert transfer.wait_s(0.0) == 0.5
    assert launch(transfer, 1.0).start == 0


def test_a_busy_server_gets_fewer_connections_and_one_more_for_each_answer() -> None:
    transfer, first = begun()
    second, third = launch(transfer), launch(transfer)
    transfer.failed(third, Retryable("429", busy=True), 0.0, 0.0)
    transfer.failed(second, Retryable("429", busy=True), 0.0, 0.0)
    second = launch(transfer, 10.0)
    assert transfer.next_flight(10.0, 4) is None
    assert first.end is not None
    first.moved(first.end, 10.0)
    transfer.landed(first, 4)
    assert len([launch(transfer, 10.0), launch(transfer, 10.0)]) == 2
    assert transfer.next_flight(10.0, 4) is None


CDN = "https://cdn.example/signed"


def test_where_a_redirect_led_is_asked_until_it_is_refused_and_then_the_first_address_again() -> None:
    transfer = Transfer(wanted())
    first = launch(transfer)
    assert transfer.target(first) is None
    transfer.answered(first, part(first, url=CDN))
    second = launch(transfer)
    hop = transfer.target(second)
    assert hop is not None
    assert str(hop.url) == CDN
    with pytest.raises(Retryable) as caught:
        transfer.answered(second, reply(403, CDN))
    transfer.failed(second, caught.value, 0.0, 0.0)
    third = launch(transfer, 10.0)
    assert transfer.target(third) is None
    with pytest.raises(AccessDenied, match="requires a token"):
        transfer.answered(third, reply(403, CDN))


@pytest.mark.parametrize(
    ("status", "error"), [(401, AccessDenied), (403, AccessDenied), (404, PullFailed), (418, PullFailed)]
)
def test_what_the_server_refuses_is_not_tried_again(status: int, error: type[PullFailed]) -> None:
    transfer = Transfer(wanted())
    with pytest.raises(error) as caught:
        transfer.answered(launch(transfer), reply(status))
    assert not isinstance(caught.value, Retryable)


def test_an_idle_connection_takes_the_second_half_of_a_slow_ones_rest() -> None:
    transfer = Transfer(wanted(size=8 * MIB))
    slow = launch(transfer, connections=2)
    transfer.answered(slow, part(slow, 8 * MIB))
    others = [launch(transfer) for _ in range(6)]
    assert slow.end == 2 * MIB
    slow.moved(1000, 1.0)
    for other in others:
        transfer.answered(other, part(other, 8 * MIB))
        other.moved(MIB, 1.0)
        transfer.landed(other, 4)
    assert transfer.next_flight(1.0, 4) is None  # it has had no time yet to be slow
    helper = launch(transfer, SLOW_S + 1)
    assert (slow.end, helper.end) == (helper.start, 2 * MIB)
    assert helper.start == 1000 + (2 * MIB - 1000) // 2
    assert slow.room(2 * MIB - 1000) == helper.start - 1000


def test_a_dead_connection_is_replaced_when_another_one_has_nothing_to_do() -> None:
    transfer = Transfer(wanted(size=MIB))
    dead = launch(transfer)
    transfer.answered(dead, part(dead, MIB))
    dead.moved(1000, 1.0)
    dead.is_paused = True
    assert transfer.next_flight(DEAD_S + 2, 4) is None
    assert not dead.dropped, "it waits for the bandwidth limit"
    dead.paused(0.0)
    assert transfer.next_flight(DEAD_S + 2, 4) is None
    assert [flight.dropped for flight in transfer.flights] == [True]
    transfer.failed(dead, Retryable("dead"), 10.0, 0.0)
    assert launch(transfer, 20.0).start == 1000


def test_a_trickle_is_as_good_as_nothing_but_the_bandwidth_limit_is_no_trickle() -> None:
    flight = Flight(0, MIB, 0.0, 1, 0, False)
    flight.paused(STALL_S)
    flight.moved(10, STALL_S + 1)
    with pytest.raises(Retryable, match="sent only"):
        flight.moved(STALL_BYTES - 11, 2 * STALL_S + 1)


def record(digest: Digest | None, validator: str | None = '"one"', size: int = SIZE) -> Record:
    return Record(size_bytes=size, digest=None if digest is None else str(digest), validator=validator)


def test_what_an_earlier_download_left_is_gone_on_with_only_if_it_is_of_the_same_file() -> None:
    good = Ranges([(0, 10 * MIB), (20 * MIB, 30 * MIB)])
    assert Transfer(wanted(), record(DIGEST), good).present == 20 * MIB
    assert Transfer(wanted(), record(DIGEST, None), good).present == 20 * MIB
    assert Transfer(wanted(digest=None), record(None), good).present == 20 * MIB
    for file, left in (
        (wanted(), record(OTHER)),
        (wanted(), record(None)),
        (wanted(digest=None), record(DIGEST)),
        (wanted(digest=None), record(None, validator=None)),
        (wanted(size=SIZE - 1), record(DIGEST)),
    ):
        assert Transfer(file, left, good).present == 0


def test_what_is_all_there_is_asked_for_nothing_if_there_is_a_digest_and_for_a_little_if_not() -> None:
    whole = Ranges([(0, SIZE)])
    assert Transfer(wanted(), record(DIGEST), whole).is_complete
    transfer = Transfer(wanted(size=None, digest=None), record(None), whole)
    flight = launch(transfer)
    assert transfer.headers(flight) == {
        "accept-encoding": "identity",
        "range": f"bytes={SIZE - MIN_CHUNK_BYTES}-{SIZE - 1}",
        "if-range": '"one"',
    }
    with pytest.raises(FileChanged):
        transfer.answered(flight, reply(200, content_length=SIZE, etag='"two"'))


def test_an_empty_file_is_a_file() -> None:
    assert Transfer(wanted(size=0)).is_complete
    transfer = Transfer(wanted(size=None, digest=None))
    flight = launch(transfer)
    transfer.answered(flight, reply(416, content_range="bytes */0"))
    transfer.landed(flight, 4)
    assert transfer.is_complete


@dataclass
class Airborne:
    flight: Flight
    answered: bool = False


class AnyOrder(RuleBasedStateMachine):
    """Flights start, move, fail, are stolen from and land in any order; each byte is written by its owner."""

    size = 7 * MIB + 123

    def __init__(self) -> None:
        super().__init__()
        self.transfer = Transfer(wanted(size=None), backoff=Backoff(first_s=0.001, max_s=0.001))
        self.now = 0.0
        self.airborne: list[Airborne] = []
        self.written = Ranges()

    @rule(connections=st.integers(1, 8), seconds=st.sampled_from([0.01, 1.0, SLOW_S + 1]))
    def start(self, connections: int, seconds: float) -> None:
        self.now += seconds
        flight = self.transfer.next_flight(self.now, connections)
        if flight is not None:
            self.airborne.append(Airborne(flight))

    @precondition(lambda self: self.airborne)
    @rule(data=st.data(), share=st.floats(0, 1))
    def answer(self, data: st.DataObject, share: float) -> None:
        one = data.draw(st.sampled_from(self.airborne))
        if not one.answered:
            assert one.flight.asked_end is not None
            end = min(one.flight.asked_end, self.size)
            end -= int((end - one.flight.start - 1) * share)
            span = f"bytes {one.flight.start}-{end - 1}/{self.size}"
            self.transfer.answered(one.flight, reply(206, content_range=span))
            one.answered = True

    @precondition(lambda self: any(one.answered for one in self.airborne))
    @rule(data=st.data(), share=st.sampled_from([0.01, 0.5, 1.0]))
    def move(self, data: st.DataObject, share: float) -> None:
        flight = data.draw(st.sampled_from([one.flight for one in self.airborne if one.answered]))
        assert flight.answer_end is not None
        arrived = flight.room(int((flight.answer_end - flight.pos) * share))
        assert flight.end is not None
        assert flight.pos + arrived <= flight.end
        self.written.add(flight.pos, flight.pos + arrived)
        flight.moved(arrived, self.now)

    @precondition(lambda self: self.airborne)
    @rule(data=st.data(), well=st.booleans())
    def finish(self, data: st.DataObject, well: bool) -> None:
        one = data.draw(st.sampled_from(self.airborne))
        try:
            if not well:
                raise Retryable("dropped")
            self.transfer.landed(one.flight, 8)
        except Retryable as error:
            try:
                self.transfer.failed(one.flight, error, self.now, 0.5)
            except PullFailed:
                self.transfer._num_failures = 0
        self.airborne.remove(one)

    @invariant()
    def what_is_believed_to_be_written_is(self) -> None:
        assert self.transfer.written == self.written
        assert self.transfer.present == self.written.num_bytes
        assert self.transfer.front.end <= self.written.front

    @invariant()
    def no_byte_has_two_owners(self) -> None:
        ends = sorted((flight.pos, flight.end or 0) for flight in self.transfer.flights if not flight.is_done)
        assert all(first[1] <= second[0] for first, second in pairwise(ends))

    def teardown(self) -> None:
        """Whatever happened, the rest can be fetched."""
        for one in self.airborne:
            self.transfer.remove(one.flight)
        while not self.transfer.is_complete:
            self.now += 1
            flight = launch(self.transfer, self.now)
            self.transfer.answered(flight, part(flight, self.size))
            assert flight.answer_end is not None
            assert flight.answer_end - flight.start <= MAX_CHUNK_BYTES
            flight.moved(flight.answer_end - flight.start, self.now)
            self.transfer.landed(flight, 8)
        assert self.transfer.front.end == self.size


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=40)
