"""Downloads from a misbehaving server: the right bytes or a clear error, and no valid bytes lost."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.errors import AccessDenied, DiskFull, ForbiddenAddress, PullFailed
from localllm.registry.fetch import download as downloads
from localllm.registry.fetch import flight as flights
from localllm.registry.fetch.download import download, download_all
from localllm.registry.fetch.job import FileToFetch
from localllm.registry.fetch.net import Net, NetOptions
from localllm.registry.fetch.pacing import Backoff
from localllm.registry.fetch.partial import discard, read_record, sidecar_of
from localllm.registry.fetch.transfer import PROGRESS_BYTES
from localllm.registry.fetch.width import Width
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Cancelled, Credential, RemoteFile
from tests.registry.nasty_server import Asked, Nasty, Reply, Script, chunked, content
from tests.registry.partials import present_bytes

SIZE = 4 * 1024 * 1024 + 321
CONTENT = content(SIZE)
SOON = Backoff(first_s=0.01, max_s=0.1, max_retry_after_s=0.05)
QUICK = NetOptions(backoff=SOON, read_timeout_s=0.3, patience_s=30)
"""What comes in the end is waited for, on a busy machine as well."""
IMPATIENT = NetOptions(backoff=SOON, read_timeout_s=0.3, patience_s=1.0)
CANCELLED_WITHIN_S = 5.0
"""The goal is 300 ms on an idle machine, which a test cannot rely on; an uncancelled read or pause takes 30 s."""


@pytest.fixture
def server() -> Iterator[Nasty]:
    with Nasty(CONTENT) as server:
        yield server


@pytest.fixture
def net() -> Iterator[Net]:
    with Net(QUICK) as net:
        yield net


class Fetcher:
    """`download` with defaults for tests; records reported progress."""

    def __init__(self, net: Net, path: Path) -> None:
        self.net = net
        self.path = path
        self.told = 0
        self.room: list[int] = []
        self.cancel = threading.Event()
        self._lock = threading.Condition()

    def on_bytes(self, num_bytes: int) -> None:
        with self._lock:
            self.told += num_bytes
            self._lock.notify_all()

    def wait_for(self, num_bytes: int) -> None:
        """Waits until that many bytes were reported."""
        with self._lock:
            assert self._lock.wait_for(lambda: self.told >= num_bytes, timeout=30)

    def __call__(self, file: RemoteFile, connections: int = 4) -> Digest:
        self.told = 0
        return download(
            file,
            self.path,
            net=self.net,
            connections=connections,
            first_connections=connections,
            on_bytes=self.on_bytes,
            cancel=self.cancel,
            require_room=self.room.append,
        )


@pytest.fixture
def fetch(net: Net, tmp_path: Path) -> Fetcher:
    return Fetcher(net, tmp_path / "id.part")


def known(server: Nasty) -> RemoteFile:
    """As a registry describes it."""
    return RemoteFile(
        file_name="file.gguf", url=server.url, named_by_user=True, size_bytes=len(server.content), digest=server.digest
    )


def unknown(server: Nasty) -> RemoteFile:
    """As a plain URL does."""
    return RemoteFile(file_name="file.gguf", url=server.url, named_by_user=True, size_bytes=None, digest=None)


kinds = pytest.mark.parametrize("kind", [known, unknown])
Kind = Callable[[Nasty], RemoteFile]


def first(times: int, reply: Callable[[Asked], Reply]) -> Script:
    """Gives these answers to the first requests, and correct ones afterwards."""
    return lambda asked: reply(asked) if asked.number < times else None


@kinds
def test_a_file_comes_over_several_connections_and_is_hashed_on_the_way(
    server: Nasty, fetch: Fetcher, kind: Kind
) -> None:
    server.pause_s = 0.002
    assert fetch(kind(server)) == server.digest
    assert fetch.path.read_bytes() == CONTENT
    assert fetch.told == SIZE
    assert fetch.room == [SIZE]
    assert server.sent_bytes == SIZE
    assert server.most_at_once == 4
    assert sorted(os.listdir(fetch.path.parent)) == ["id.part", "id.part.json"]
    discard(fetch.path)
    assert os.listdir(fetch.path.parent) == []


@kinds
@pytest.mark.parametrize("size", [0, 1, 1024 * 1024 - 1, 1024 * 1024 + 1])
def test_files_of_any_size_come_whole(net: Net, tmp_path: Path, kind: Kind, size: int) -> None:
    with Nasty(content(size)) as server:
        assert Fetcher(net, tmp_path / "p")(kind(server)) == server.digest
        assert (tmp_path / "p").read_bytes() == server.content


@kinds
def test_a_server_without_ranges_is_read_in_one_piece(server: Nasty, fetch: Fetcher, kind: Kind) -> None:
    server.ranges = False
    assert fetch(kind(server)) == server.digest
    assert (fetch.path.read_bytes(), fetch.told, len(server.asked)) == (CONTENT, SIZE, 1)


@kinds
def test_a_body_of_unknown_length_in_chunks_is_read_to_its_end(server: Nasty, fetch: Fetcher, kind: Kind) -> None:
    pieces = [CONTENT[start : start + 100_000] for start in range(0, SIZE, 100_000)]
    server.script = lambda _: Reply(200, {"Transfer-Encoding": "chunked"}, chunked(pieces), None)
    assert fetch(kind(server)) == server.digest
    assert fetch.path.read_bytes() == CONTENT


@kinds
def test_whatever_was_in_the_partial_file_before_without_a_note_counts_for_nothing(
    server: Nasty, fetch: Fetcher, kind: Kind
) -> None:
    fetch.path.write_bytes(b"x" * (SIZE + 5000))
    for ranges in (True, False):
        server.ranges = ranges
        assert fetch(kind(server)) == server.digest
        assert fetch.path.read_bytes() == CONTENT
        sidecar_of(fetch.path).write_bytes(b"\xff not json")


@pytest.mark.parametrize("ranges", [True, False])
def test_a_wrong_digest_throws_the_file_away(server: Nasty, fetch: Fetcher, ranges: bool) -> None:
    server.ranges = ranges
    file = known(server)
    server.content = content(SIZE, seed=8)
    with pytest.raises(PullFailed, match="discarded") as caught:
        fetch(file)
    assert caught.value.details["expected"] == str(file.digest)
    assert os.listdir(fetch.path.parent) == []
    assert fetch.told == 0
    assert server.sent_bytes == SIZE  # nobody fetches it again and again


def reply_206(start: int, end: int, body: bytes, *, stall: bool = False, drop: bool = False) -> Reply:
    return Reply(206, {"Content-Range": f"bytes {start}-{end - 1}/{SIZE}"}, body, stall=stall, drop=drop)


def shifted(asked: Asked) -> Reply:
    start, end = asked.range or (0, SIZE)
    return reply_206(start + 1, end + 1, CONTENT[start + 1 : end + 1])


def truncated(asked: Asked) -> Reply:
    start, end = asked.range or (0, SIZE)
    end = min(end, SIZE)
    answer = reply_206(start, end, CONTENT[start : start + (end - start) // 2], drop=True)
    answer.length = end - start
    return answer


def too_long(asked: Asked) -> Reply:
    start, end = asked.range or (0, SIZE)
    end = min(end, SIZE)
    answer = reply_206(start, end, b"".join(chunked([CONTENT[start:end], b"and more of it"])))
    answer.headers["Transfer-Encoding"], answer.length = "chunked", None
    return answer


def contradicting(asked: Asked) -> Reply:
    start, end = asked.range or (0, SIZE)
    return reply_206(start, end, CONTENT[start:end] + b"and more of it")


def stalling(asked: Asked) -> Reply:
    start, end = asked.range or (0, SIZE)
    end = min(end, SIZE)
    answer = reply_206(start, end, CONTENT[start : start + 1000], stall=True)
    answer.length = end - start
    return answer


NASTY: dict[str, Callable[[Asked], Reply]] = {
    "another range": shifted,
    "cut short": truncated,
    "too long": too_long,
    "contradicting itself": contradicting,
    "stalled": stalling,
    "503": lambda _: Reply(503, {"Retry-After": "1000"}, b"not now"),
    "429": lambda _: Reply(429, {}, b"not so many"),
    "500": lambda _: Reply(500),
    "hung up": lambda _: Reply(206, {}, b"", 10, drop=True),
    "garbage": lambda _: Reply(200, {"Content-Length": "many"}, b"x", None, drop=True),
}


@kinds
@pytest.mark.parametrize("name", NASTY)
def test_what_goes_wrong_three_times_and_then_well_costs_nothing_but_time(
    server: Nasty, fetch: Fetcher, kind: Kind, name: str
) -> None:
    server.script = first(3, NASTY[name])
    assert fetch(kind(server)) == server.digest
    assert (fetch.path.read_bytes(), fetch.told) == (CONTENT, SIZE)


@pytest.mark.parametrize("name", ["cut short", "stalled", "503", "429", "hung up", "another range", "too long"])
def test_what_goes_wrong_now_and_then_costs_nothing_but_time(server: Nasty, fetch: Fetcher, name: str) -> None:
    """Never six times before data comes: that would be always."""
    told_at: list[int] = []

    def now_and_then(asked: Asked) -> Reply | None:
        if asked.number % 3 != 2 or (told_at and fetch.told < told_at[-1] + PROGRESS_BYTES):
            return None
        told_at.append(fetch.told)
        return NASTY[name](asked)

    server.script = now_and_then
    assert fetch(known(server)) == server.digest
    assert (fetch.path.read_bytes(), fetch.told) == (CONTENT, SIZE)
    assert told_at


@pytest.mark.parametrize("name", [name for name in NASTY if name not in ("cut short", "too long")])  # they bring bytes
def test_what_always_goes_wrong_ends_and_what_had_arrived_stays(server: Nasty, tmp_path: Path, name: str) -> None:
    with Net(IMPATIENT) as net:
        _always_goes_wrong(server, Fetcher(net, tmp_path / "id.part"), name)


def _always_goes_wrong(server: Nasty, fetch: Fetcher, name: str) -> None:
    def first_well_then_badly(asked: Asked) -> Reply | None:
        if asked.number == 0:
            return None
        fetch.wait_for(384 * 1024)  # attempts that are used up sooner would leave nothing to stay
        return NASTY[name](asked)

    server.script = first_well_then_badly
    with pytest.raises(PullFailed, match=r"6 attempts|no data"):
        fetch(known(server))
    asked = len(server.asked)
    assert asked < 100
    assert fetch.told >= 384 * 1024
    assert present_bytes(fetch.path, digest=server.digest, size_bytes=SIZE) == fetch.told
    before = server.sent_bytes
    server.script = lambda _: None
    assert fetch(known(server)) == server.digest
    assert fetch.path.read_bytes() == CONTENT
    assert server.sent_bytes - before <= SIZE - 384 * 1024


@pytest.mark.parametrize("status", [401, 403])
def test_no_access_is_said_at_once(server: Nasty, fetch: Fetcher, status: int) -> None:
    server.script = lambda _: Reply(status)
    with pytest.raises(AccessDenied, match="token"):
        fetch(known(server))
    assert len(server.asked) == 1


def test_a_gated_file_says_where_access_is_asked_for(server: Nasty, fetch: Fetcher) -> None:
    server.script = lambda _: Reply(403, {"X-Error-Code": "GatedRepo"})
    file = dataclasses.replace(known(server), url=f"{server.origin}/ann/model-GGUF/resolve/main/file.gguf")
    with pytest.raises(AccessDenied, match=rf"request access on {server.origin}/ann/model-GGUF with"):
        fetch(file)


@pytest.mark.parametrize("total", [SIZE - 1, SIZE + 1, 10**17, 10**18])
def test_a_rogue_size_is_refused_before_anything_is_written(server: Nasty, fetch: Fetcher, total: int) -> None:
    server.script = lambda _: Reply(206, {"Content-Range": f"bytes 0-1023/{total}"}, CONTENT[:1024])
    for file in (known(server), unknown(server)):
        if file.size_bytes is None and total < 10**15:
            continue
        with pytest.raises(PullFailed):
            fetch(file)
        assert fetch.path.stat().st_blocks == 0


def test_a_file_that_is_too_large_for_the_disk_is_not_begun(server: Nasty, fetch: Fetcher) -> None:
    def no_room(num_bytes: int) -> None:
        raise DiskFull("no room", needed_bytes=num_bytes)

    for file, asked in ((known(server), 0), (unknown(server), 1)):
        with pytest.raises(DiskFull) as caught:
            download(
                file, fetch.path, net=fetch.net, on_bytes=fetch.on_bytes, cancel=fetch.cancel, require_room=no_room
            )
        assert caught.value.details["needed_bytes"] == SIZE
        assert len(server.asked) == asked
    assert fetch.told == 0


def test_a_disk_that_fills_up_on_the_way_is_a_clear_error(
    server: Nasty, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("localllm.system.files.write_at", full)
    with pytest.raises(DiskFull):
        fetch(known(server))


def changing(server: Nasty, at: int) -> Script:
    """The file changes from this request on."""

    def script(asked: Asked) -> Reply | None:
        if asked.number == at:
            server.content, server.etag = content(SIZE, seed=9), '"two"'
        return None

    return script


def test_a_file_that_changes_on_the_way_is_never_mixed(server: Nasty, fetch: Fetcher) -> None:
    server.script = changing(server, 3)
    assert fetch(unknown(server)) == server.digest
    assert server.etag == '"two"'
    assert (fetch.path.read_bytes(), fetch.told) == (server.content, SIZE)


def test_a_file_that_changed_since_the_last_time_is_begun_anew(server: Nasty, fetch: Fetcher) -> None:
    interrupt_after(fetch, server, SIZE // 2, unknown)
    server.content, server.etag = content(SIZE - 1000, seed=9), '"two"'
    assert fetch(unknown(server)) == server.digest
    assert fetch.path.read_bytes() == server.content


def test_parts_of_different_files_with_one_digest_wanted_are_fetched_once_more_from_nothing(
    server: Nasty, fetch: Fetcher
) -> None:
    interrupt_after(fetch, server, SIZE // 2, known)
    with open(fetch.path, "r+b") as file:
        file.seek(1000)
        file.write(b"bit rot")
    before = server.sent_when_idle()
    assert fetch(known(server)) == server.digest
    assert (fetch.path.read_bytes(), fetch.told) == (CONTENT, SIZE)
    assert server.sent_bytes - before >= SIZE


def interrupt_after(fetch: Fetcher, server: Nasty, num_bytes: int, kind: Kind) -> None:
    """Cancels a download once that many bytes have arrived."""
    server.pause_s = 0.015

    def on_bytes(more: int) -> None:
        fetch.on_bytes(more)
        if fetch.told >= num_bytes:
            cancel.set()

    cancel = threading.Event()
    with pytest.raises(Cancelled):
        download(
            kind(server), fetch.path, net=fetch.net, connections=4, on_bytes=on_bytes, cancel=cancel,
            require_room=fetch.room.append,
        )  # fmt: skip
    server.pause_s = 0.0


@kinds
def test_after_an_interruption_only_what_is_missing_is_fetched(server: Nasty, fetch: Fetcher, kind: Kind) -> None:
    interrupt_after(fetch, server, SIZE // 2, kind)
    there = present_bytes(fetch.path, digest=kind(server).digest, size_bytes=None)
    assert there >= SIZE // 2
    before = server.sent_when_idle()
    fetch.room.clear()
    assert fetch(kind(server)) == server.digest
    assert (fetch.path.read_bytes(), fetch.told) == (CONTENT, SIZE)
    assert server.sent_bytes - before <= SIZE - there + 1024 * 1024
    assert fetch.room[0] <= SIZE - there + 1024 * 1024


def test_after_a_loss_of_power_only_what_had_been_synced_is_believed(
    server: Nasty, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "SYNC_S", 0.02)
    interrupt_after(fetch, server, SIZE // 2, known)
    record = read_record(fetch.path)
    assert record is not None
    synced = sum(end - start for start, end in record.synced)
    assert 0 < synced < sum(end - start for start, end in record.ranges)
    monkeypatch.setattr("localllm.system.machine.boot_id", lambda: "another life")
    assert present_bytes(fetch.path, digest=server.digest, size_bytes=SIZE) == synced
    before = server.sent_when_idle()
    assert fetch(known(server)) == server.digest
    assert server.sent_bytes - before == SIZE - synced


def test_what_is_recorded_beyond_the_files_end_is_not_believed(server: Nasty, fetch: Fetcher) -> None:
    fetch(known(server))
    os.truncate(fetch.path, 1_000_000)
    assert present_bytes(fetch.path, digest=server.digest, size_bytes=SIZE) == 1_000_000
    assert fetch(known(server)) == server.digest
    fetch.path.unlink()
    assert present_bytes(fetch.path, digest=server.digest, size_bytes=SIZE) == 0
    assert fetch(known(server)) == server.digest
    assert fetch.path.read_bytes() == CONTENT


@pytest.mark.parametrize("phase", ["stalled", "waiting for the next attempt", "no connection", "limited"])
def test_cancelling_ends_it_soon_whatever_is_going_on(server: Nasty, tmp_path: Path, phase: str) -> None:
    options = NetOptions(max_bytes_per_s=100_000 if phase == "limited" else None, patience_s=3600)
    file = known(server)
    if phase == "stalled":
        server.script = stalling
    elif phase == "waiting for the next attempt":
        server.script = NASTY["503"]
    resolved = threading.Event()

    def resolver(host: str, port: int) -> list[str]:
        if phase == "no connection":
            resolved.wait()
        return [host]

    with Net(options, resolver=resolver) as net:
        fetch = Fetcher(net, tmp_path / "p")
        cancelled_at: list[float] = []

        def cancel() -> None:
            cancelled_at.append(time.monotonic())
            fetch.cancel.set()

        timer = threading.Timer(0.2, cancel)
        timer.start()
        try:
            with pytest.raises(Cancelled):
                fetch(file)
            assert time.monotonic() - cancelled_at[0] < CANCELLED_WITHIN_S
        finally:
            resolved.set()
            timer.cancel()
            timer.join()


def test_the_bandwidth_limit_is_for_all_connections_together(server: Nasty, tmp_path: Path) -> None:
    with Net(NetOptions(max_bytes_per_s=8 * SIZE)) as net:
        started = time.monotonic()
        Fetcher(net, tmp_path / "p")(known(server), connections=8)
        assert time.monotonic() - started > 0.1 - 0.025  # an eighth of a second, without what is taken at once at first


def test_a_credential_is_for_its_origin_only_and_redirects_are_not_asked_again(tmp_path: Path) -> None:
    with (
        Nasty(CONTENT) as cdn,
        Nasty(CONTENT) as hub,
        Net(NetOptions(allow_private_hosts=True, backoff=QUICK.backoff)) as net,
    ):
        hub.script = lambda asked: Reply(302, {"Location": f"{cdn.origin}/signed?{asked.number}"})
        file = RemoteFile(
            file_name="file.gguf", url=hub.url, size_bytes=SIZE, digest=hub.digest,
            credential=Credential(hub.origin, "Bearer hunter2"),
        )  # fmt: skip

        def expiring(asked: Asked) -> Reply | None:
            return Reply(403) if asked.number >= 3 and asked.path.endswith("?0") else None

        cdn.script = expiring
        assert Fetcher(net, tmp_path / "p")(file) == hub.digest
        assert all("authorization" not in asked.headers for asked in cdn.asked)
        assert {asked.headers["authorization"] for asked in hub.asked} == {"Bearer hunter2"}
        assert 2 <= len(hub.asked) < len(cdn.asked)
        assert (tmp_path / "p").read_bytes() == CONTENT


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "inside.example", "169.254.169.254"])
def test_a_redirect_inside_is_refused(server: Nasty, tmp_path: Path, host: str) -> None:
    with Nasty(CONTENT) as inside, Net(QUICK, resolver=lambda *_: ["127.0.0.1"]) as net:
        server.script = lambda _: Reply(302, {"Location": f"http://{host}:{inside.port}/file.gguf"})
        with pytest.raises(ForbiddenAddress):
            Fetcher(net, tmp_path / "p")(known(server))
        assert inside.asked == []


def test_a_range_of_something_packed_is_refused(server: Nasty, fetch: Fetcher) -> None:
    def packed(asked: Asked) -> Reply:
        answer = server.ordinary(asked)
        answer.headers["Content-Encoding"] = "gzip"
        return answer

    server.script = packed
    with pytest.raises(PullFailed, match="encoding"):
        fetch(known(server))
    assert server.asked[0].headers["accept-encoding"] == "identity"


def test_a_connection_that_brings_a_byte_now_and_then_is_given_up(
    server: Nasty, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "STALL_S", 0.3)

    def trickle(asked: Asked) -> Reply:
        start, end = asked.range or (0, SIZE)

        def bytes_now_and_then() -> Iterator[bytes]:
            for pos in range(start, end):
                yield CONTENT[pos : pos + 1]
                time.sleep(0.05)

        return Reply(206, {"Content-Range": f"bytes {start}-{end - 1}/{SIZE}"}, bytes_now_and_then(), end - start)

    server.script = first(1, trickle)
    assert fetch(known(server)) == server.digest


def wanted_of(servers: list[Nasty], folder: Path, told: dict[str, int]) -> list[FileToFetch]:
    lock = threading.Lock()

    def telling(name: str) -> Callable[[int], None]:
        def on_bytes(num_bytes: int) -> None:
            with lock:
                told[name] = told.get(name, 0) + num_bytes

        return on_bytes

    paths = [folder / f"{index}.part" for index in range(len(servers))]
    return [FileToFetch(known(server), path, telling(path.stem)) for server, path in zip(servers, paths, strict=True)]


def fetch_all(wanted: list[FileToFetch], net: Net, connections: int) -> list[Digest]:
    width = Width(connections, connections)
    return download_all(wanted, net=net, width=width, cancel=threading.Event(), require_room=lambda _: None)


def test_several_files_share_the_connections(net: Net, tmp_path: Path) -> None:
    told: dict[str, int] = {}
    servers = [Nasty(content(1024 * 1024 * (index % 3), seed=index)) for index in range(7)]
    for server in servers:
        server.__enter__()
    try:
        wanted = wanted_of(servers, tmp_path, told)
        digests = download_all(
            wanted, net=net, width=Width(3, 3), cancel=threading.Event(), require_room=lambda _: None
        )
        assert digests == [server.digest for server in servers]
        for server, one in zip(servers, wanted, strict=True):
            assert one.partial.read_bytes() == server.content
        assert sum(told.values()) == sum(len(server.content) for server in servers)
    finally:
        for server in servers:
            server.__exit__(None, None, None)


def test_when_one_file_fails_the_others_keep_what_they_have(net: Net, tmp_path: Path) -> None:
    told: dict[str, int] = {}
    with Nasty(CONTENT) as good, Nasty(content(SIZE, seed=3)) as bad:
        wanted = wanted_of([good, bad], tmp_path, told)
        good.pause_s = 0.005
        bad.script = lambda _: Reply(404) if good.sent_bytes > SIZE // 4 else Reply(503, {"Retry-After": "0"})
        with Net(NetOptions(backoff=Backoff(first_s=0.05, max_s=0.05))) as patient_net, pytest.raises(PullFailed):
            download_all(
                wanted, net=patient_net, width=Width(4, 4), cancel=threading.Event(), require_room=lambda _: None
            )
        there = present_bytes(wanted[0].partial, digest=good.digest, size_bytes=SIZE)
        assert there == told["0"] > 0
        good.pause_s, bad.script, before = 0.0, lambda _: None, good.sent_when_idle()
        fetch_all(wanted, net, 4)
        assert good.sent_bytes - before == SIZE - there


def test_a_link_in_the_place_of_a_partial_file_is_not_written_through(server: Nasty, fetch: Fetcher) -> None:
    victim = fetch.path.parent / "victim"
    victim.write_text("precious")
    fetch.path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        fetch(known(server))
    assert victim.read_text() == "precious"


def test_nothing_is_left_open(tmp_path: Path) -> None:
    with Nasty(CONTENT) as server:
        before = threading.active_count()
        for script in (server.script, NASTY["500"]):
            server.script = script
            with Net(IMPATIENT) as net:
                try:
                    Fetcher(net, tmp_path / "p")(known(server))
                except PullFailed:
                    discard(tmp_path / "p")
            assert [one for one in threading.enumerate() if one.name.startswith(("download", "sync"))] == []
            discard(tmp_path / "p")
    assert threading.active_count() < before  # the server's own is gone too
