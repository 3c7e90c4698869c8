"""Requests to a malicious server: redirects, credentials, private addresses, bombs, and deadlines."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.errors import ForbiddenAddress, InvalidParameter, PullFailed
from localllm.registry.fetch.net import MAX_REDIRECTS, Net, NetOptions, origin_of
from localllm.registry.fetch.pacing import Retryable
from localllm.registry.remote import Cancelled, Credential
from tests.registry.nasty_server import Asked, Nasty, Reply, chunked

CERT = Path(__file__).parents[1] / "server/data/localhost.cert.pem"
KEY = CERT.with_name("localhost.key.pem")

CANCELLED_WITHIN_S = 5.0
"""The goal is 300 ms on an idle machine, which a test cannot rely on; an uncancelled read or pause takes 30 s."""


class Waits(list[float]):
    """Records the requested pauses instead of sleeping."""

    def __call__(self, seconds: float, _: Callable[[], bool]) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def net(waits: Waits) -> Iterator[Net]:
    with Net(pause=waits) as net:
        yield net


@pytest.fixture
def server() -> Iterator[Nasty]:
    with Nasty() as server:
        yield server


def redirecting(location: str, status: int = 302) -> Callable[[Asked], Reply | None]:
    return lambda asked: Reply(status, {"Location": location}) if asked.path == "/file.gguf" else None


def secret_for(server: Nasty) -> Credential:
    return Credential(server.origin, "Bearer hunter2")


def test_a_small_answer_comes_whole_with_its_status_and_headers(server: Nasty, net: Net) -> None:
    server.script = lambda _: Reply(401, {"WWW-Authenticate": 'Bearer realm="x"'}, b"who are you?")
    answer = net.get_small(server.url, named_by_user=True, headers={"Accept": "application/json"})
    assert (answer.status, answer.body, answer.url) == (401, b"who are you?", server.url)
    assert answer.headers["www-authenticate"] == 'Bearer realm="x"'
    assert server.asked[0].headers["accept"] == "application/json"
    assert server.asked[0].headers["user-agent"].startswith("localllm/")


def test_nothing_is_remembered_of_a_visit(server: Nasty, net: Net) -> None:
    server.script = lambda _: Reply(200, {"Set-Cookie": "you=4711; Path=/"})
    for _ in range(2):
        net.get_small(server.url, named_by_user=True)
    assert "cookie" not in server.asked[1].headers


def test_a_relative_redirect_keeps_the_credential(server: Nasty, net: Net) -> None:
    server.script = redirecting("/other", 307)
    server.content = b"here"
    answer = net.get_small(server.url, named_by_user=True, credential=secret_for(server))
    assert (answer.body, answer.url) == (b"here", f"{server.origin}/other")
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer hunter2"] * 2


def test_a_credential_is_lost_at_the_first_foreign_origin_and_does_not_come_back() -> None:
    with Nasty() as home, Nasty() as foreign, Net(NetOptions(allow_private_hosts=True)) as net:
        home.script = redirecting(f"{foreign.origin}/there")
        foreign.script = lambda _: Reply(302, {"Location": f"{home.origin}/again"})
        net.get_small(home.url, named_by_user=True, credential=secret_for(home))
        assert [asked.headers.get("authorization") for asked in home.asked] == ["Bearer hunter2", None]
        assert "authorization" not in foreign.asked[0].headers


def test_a_credential_never_goes_to_another_origin_than_its_own(server: Nasty, net: Net) -> None:
    for origin in ("https://huggingface.co", server.origin.replace("http", "https"), f"http://127.0.0.1:{1}"):
        net.get_small(server.url, named_by_user=True, credential=Credential(origin, "Bearer hunter2"))
    assert all("authorization" not in asked.headers for asked in server.asked)
    with pytest.raises(ValueError, match="credential"):
        net.get_small(server.url, named_by_user=True, headers={"AUTHORIZATION": "Bearer hunter2"})


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/secret",
        "http://localhost:{port}/secret",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://0.0.0.0:{port}/secret",
        "http://2130706433:{port}/secret",
        "http://127.1:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://inside.example:{port}/secret",
        "//inside.example:{port}/secret",
    ],
)
def test_a_redirect_never_leads_to_a_private_address(server: Nasty, target: str) -> None:
    def resolver(host: str, port: int) -> list[str]:
        return {"inside.example": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]}[host]

    with Nasty(b"internal") as inside, Net(resolver=resolver) as net:
        server.script = redirecting(target.format(port=inside.port))
        with pytest.raises(
            ForbiddenAddress, match="set --allow-private-downloads or LOCALLLM_ALLOW_PRIVATE_DOWNLOADS=1"
        ):
            net.get_small(server.url, named_by_user=True)
        assert inside.asked == []


def test_a_url_that_nobody_typed_never_leads_to_a_private_address(server: Nasty, net: Net) -> None:
    with pytest.raises(ForbiddenAddress):
        net.get_small(server.url)
    assert server.asked == []


def test_a_connection_that_a_trusted_request_left_open_is_not_used_by_an_untrusted_one(server: Nasty) -> None:
    with Net(resolver=lambda *_: ["127.0.0.1"]) as net:
        url = f"http://models.example:{server.port}/file.gguf"
        assert net.get_small(url, named_by_user=True).status == 200
        with pytest.raises(ForbiddenAddress):
            net.get_small(url)


def test_a_typed_private_host_may_redirect_to_itself_but_not_to_its_neighbour(server: Nasty, net: Net) -> None:
    server.script = redirecting(f"{server.origin}/other")
    assert net.get_small(server.url, named_by_user=True).status == 200
    with Nasty() as neighbour:
        server.script = redirecting(neighbour.url)
        with pytest.raises(ForbiddenAddress):
            net.get_small(server.url, named_by_user=True)


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://8.8.8.8/x", "javascript:1", "http://user:pass@8.8.8.8/", "http://", "http://["]
)  # fmt: skip
def test_a_redirect_to_something_else_than_the_web_is_not_followed(server: Nasty, net: Net, location: str) -> None:
    server.script = redirecting(location)
    with pytest.raises(PullFailed):
        net.get_small(server.url, named_by_user=True)
    assert len(server.asked) <= MAX_REDIRECTS + 1


def test_redirects_in_a_circle_end(server: Nasty, net: Net) -> None:
    server.script = lambda asked: Reply(302, {"Location": f"{asked.path}x"})
    with pytest.raises(PullFailed, match="more than 10 times"):
        net.get_small(server.url, named_by_user=True)
    assert len(server.asked) == MAX_REDIRECTS + 1


def test_a_server_that_is_busy_is_asked_again_when_it_says(server: Nasty, net: Net, waits: Waits) -> None:
    server.content = b"at last"
    server.script = lambda asked: Reply(503, {"Retry-After": "7"}) if asked.number < 2 else None
    assert net.get_small(server.url, named_by_user=True).body == b"at last"
    assert waits == [7.0, 7.0]


def test_whom_a_small_answer_waits_for_is_told_during_the_pause(server: Nasty) -> None:
    server.script = lambda asked: Reply(503, {"Retry-After": "7"}) if asked.number < 1 else None
    told: list[tuple[str, float, str]] = []

    def pause(_: float, is_over: Callable[[], bool]) -> None:
        assert not is_over()

    with Net(pause=pause) as net:
        net.get_small(server.url, named_by_user=True, on_wait=lambda *waited: told.append(waited))
    ((host, seconds, why),) = told
    assert why == "127.0.0.1 answered 503"
    assert f"http://{host}" == origin_of(server.url)
    assert 0 <= seconds < 7


def test_a_server_that_stays_busy_is_an_answer_and_one_that_hangs_up_is_an_error(server: Nasty, net: Net) -> None:
    server.script = lambda _: Reply(503, {}, b"no")
    assert net.get_small(server.url, named_by_user=True).status == 503
    server.script = lambda _: Reply(200, {}, b"half", length=9, drop=True)
    with pytest.raises(Retryable, match=r"127\.0\.0\.1"):
        net.get_small(server.url, named_by_user=True)
    assert len(server.asked) == 6


class Clock:
    """Passes only during pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = self.now = float(int(time.monotonic()))  # whole seconds, so that pauses add up exactly
        monkeypatch.setattr("localllm.registry.fetch.net.time", self)
        monkeypatch.setattr("localllm.registry.fetch.pacing.time", self)

    @property
    def passed_s(self) -> float:
        return self.now - self.began

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        self.now += seconds
        assert not is_over()


class Outage:
    """A server that is down for some time, and how a patient caller meets it."""

    def __init__(self, server: Nasty, clock: Clock, kind: str, seconds: float) -> None:
        self.server, self.clock, self.kind, self.seconds = server, clock, kind, seconds
        self.told: list[tuple[str, float, str]] = []
        server.script = lambda _: Reply(500) if self.is_on and kind == "answers 500" else None

    @property
    def is_on(self) -> bool:
        return self.clock.passed_s < self.seconds

    def resolve(self, *_: object) -> list[str]:
        if self.is_on and self.kind == "has no address":
            raise OSError(-2, "Name or service not known")
        return ["127.0.0.2" if self.is_on and self.kind == "refuses" else "127.0.0.1"]

    def asked(self) -> bytes:
        with Net(pause=self.clock.pause, resolver=self.resolve) as net:
            return net.get_small(
                f"http://models.example:{self.server.port}/",
                named_by_user=True,
                on_wait=lambda *waited: self.told.append(waited),
                is_patient=True,
            ).body


@pytest.mark.parametrize("seconds", [20.0, 560.0])
@pytest.mark.parametrize(("kind", "why"), [("refuses", "Connection refused"), ("answers 500", "answered 500")])
def test_a_patient_caller_waits_out_an_outage_and_is_told_why(
    server: Nasty, kind: str, why: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content = b"back again"
    clock = Clock(monkeypatch)
    outage = Outage(server, clock, kind, seconds)
    assert outage.asked() == b"back again"
    assert {host for host, *_ in outage.told} == {f"models.example:{server.port}"}
    assert all(why in sentence and "Errno" not in sentence for *_, sentence in outage.told)
    assert seconds <= outage.told[-1][1] <= seconds + 32


@pytest.mark.parametrize(("kind", "least_s", "most_s"), [("refuses", 599, 601), ("has no address", 0.5, 5)])
def test_patience_ends_in_time_and_soon_for_a_name_that_nobody_knows(
    server: Nasty, kind: str, least_s: float, most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(Retryable, match=r"no connection to models\.example"):
        Outage(server, clock, kind, 10_000).asked()
    assert least_s < clock.passed_s <= most_s


def test_an_answer_of_10_gb_in_a_few_megabytes_is_stopped_at_once(server: Nasty, net: Net) -> None:
    squeeze = zlib.compressobj(9, wbits=31)
    million = bytes(1_000_000)
    start = b"".join(squeeze.compress(million) for _ in range(100))  # 10 GB would be a hundred of these

    def bomb() -> Iterator[bytes]:
        while True:
            yield start

    server.script = lambda _: Reply(200, {"Content-Encoding": "gzip"}, bomb(), length=10_000_000)
    started = time.monotonic()
    with pytest.raises(PullFailed, match="more than 4,194,304 bytes"):
        net.get_small(server.url, named_by_user=True)
    assert time.monotonic() - started < 5
    assert len(server.asked) == 1


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_answer_that_is_too_large_is_stopped_however_it_is_sent(server: Nasty, net: Net, is_chunked: bool) -> None:
    body = bytes(2000)
    whole = b"".join(chunked([body]))
    headers = {"Transfer-Encoding": "chunked"} if is_chunked else {}
    server.script = lambda _: Reply(200, headers, whole if is_chunked else body, None if is_chunked else -1)
    assert len(net.get_small(server.url, named_by_user=True, max_bytes=2000).body) == 2000
    with pytest.raises(PullFailed, match="more than 1,999 bytes"):
        net.get_small(server.url, named_by_user=True, max_bytes=1999)


def test_gzip_is_understood_and_anything_else_or_broken_is_an_error(server: Nasty, net: Net) -> None:
    packed = gzip.compress(b"a manifest" * 100)
    server.script = lambda _: Reply(200, {"Content-Encoding": "gzip"}, packed)
    assert net.get_small(server.url, named_by_user=True).body == b"a manifest" * 100
    for body, encoding in ((packed[:-9], "gzip"), (packed + b"more", "gzip"), (b"\0" * 50, "gzip"), (packed, "br")):
        server.script = lambda _, body=body, encoding=encoding: Reply(200, {"Content-Encoding": encoding}, body)  # type: ignore[misc]
        with pytest.raises(PullFailed):
            net.get_small(server.url, named_by_user=True)


def test_a_slow_trickle_ends_at_the_time_limit(server: Nasty) -> None:
    def trickle() -> Iterator[bytes]:
        while True:
            yield b"."
            time.sleep(0.02)

    server.script = lambda _: Reply(200, {}, trickle(), length=1_000_000)
    with Net(NetOptions(small_timeout_s=0.4)) as net, pytest.raises(PullFailed, match="too long"):
        net.get_small(server.url, named_by_user=True)


def test_a_server_that_accepts_and_says_nothing_is_given_up(server: Nasty, waits: Waits) -> None:
    server.script = lambda _: Reply(200, {}, b"", length=5, stall=True)
    with Net(NetOptions(read_timeout_s=0.1), pause=waits) as net, pytest.raises(Retryable, match="no more data"):
        net.get_small(server.url, named_by_user=True)
    assert len(waits) == 2


def test_cancelling_ends_a_read_and_a_pause(server: Nasty) -> None:
    cancel = threading.Event()
    with Net() as net:
        for reply in (Reply(200, {}, b"", length=5, stall=True), Reply(503, {"Retry-After": "30"})):
            cancel.clear()
            cancelled_at: list[float] = []

            def stop(marks: list[float] = cancelled_at) -> None:
                marks.append(time.monotonic())
                cancel.set()

            server.script = lambda _, reply=reply: reply  # type: ignore[misc]
            timer = threading.Timer(0.2, stop)
            timer.start()
            with pytest.raises(Cancelled):
                net.get_small(server.url, named_by_user=True, cancel=cancel)
            assert time.monotonic() - cancelled_at[0] < CANCELLED_WITHIN_S
            timer.join()


def test_garbage_instead_of_http_is_an_error_that_names_the_host(net: Net) -> None:
    with Nasty() as server:
        server.script = lambda _: Reply(200, {"Content-Length": "-1"}, b"", None)
        with pytest.raises(PullFailed, match=r"127\.0\.0\.1"):
            net.get_small(server.url, named_by_user=True)
    with pytest.raises(Retryable, match=r"127\.0\.0\.1"):  # and nobody listens there now
        net.get_small(server.url, named_by_user=True)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


def test_one_connection_serves_many_requests_also_after_chunked_and_empty_answers(server: Nasty, net: Net) -> None:
    replies = [
        Reply(200, {}, b"x" * 300_000),
        Reply(200, {"Transfer-Encoding": "chunked"}, b"".join(chunked([b"x" * 70_000, b"y"])), None),
        Reply(204, {}, b"", None),
        Reply(raw=b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"body"),
        Reply(404, {}, b"no"),
    ]
    server.keep_unframed = True
    server.script = lambda asked: replies[asked.number]
    lengths = [len(net.get_small(server.url, named_by_user=True).body) for _ in replies]
    assert lengths == [300_000, 70_001, 0, 4, 2]
    assert server.num_connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"body",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\n\n",
    ],
    ids=["counted", "empty", "chunked", "bare line feeds"],
)
def test_what_comes_together_with_an_answer_is_not_taken_for_the_next_one(
    server: Nasty, net: Net, answer: bytes
) -> None:
    server.content = b"good"
    server.script = lambda asked: Reply(raw=answer + OK + b"evil") if asked.number == 0 else None
    net.get_small(server.url, named_by_user=True)
    assert net.get_small(server.url, named_by_user=True).body == b"good"
    assert server.num_connections == 2


def test_a_server_that_hangs_up_between_requests_is_not_noticed(server: Nasty, net: Net, waits: Waits) -> None:
    server.script = lambda _: Reply(200, {}, b"body", drop=True)
    assert [net.get_small(server.url, named_by_user=True).body for _ in range(3)] == [b"body"] * 3
    assert len(waits) <= 2  # it may hang up just when it is asked


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nBad Header: 5\r\n\r\nbody",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbody",
        b"\r\n\r\n",
        b"",
    ],
    ids=["long head", "two lengths", "bad header", "ssh", "bad chunk", "blank", "nothing"],
)
def test_what_is_no_http_is_an_error_and_not_a_crash(server: Nasty, net: Net, raw: bytes) -> None:
    server.script = lambda _: Reply(raw=raw, drop=True)
    with pytest.raises(PullFailed, match=r"127\.0\.0\.1"):
        net.get_small(server.url, named_by_user=True)


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http://", "http://user@8.8.8.8/", "nonsense", "http://[/", "http://x:99999/"]
)
def test_what_is_no_url_of_the_web_is_refused(net: Net, url: str) -> None:
    with pytest.raises(PullFailed):
        net.get_small(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://HuggingFace.co:443/x?y", "https://huggingface.co"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://[::1]:80/", "http://[::1]"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_has_one_spelling(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def tls_server() -> Nasty:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERT, KEY)
    return Nasty(bytes(1_000_000), context=context)


def test_https_works_with_ones_own_authority_and_says_what_to_do_without() -> None:
    with tls_server() as server:
        with Net(NetOptions(ca_file=CERT)) as net:
            assert len(net.get_small(server.url, named_by_user=True).body) == 1_000_000
        with Net() as net, pytest.raises(PullFailed, match="give its certificate as the CA file"):
            net.get_small(server.url, named_by_user=True)


def test_https_is_not_left_by_a_redirect() -> None:
    with tls_server() as server, Nasty() as plain, Net(NetOptions(ca_file=CERT, allow_private_hosts=True)) as net:
        server.script = redirecting(plain.url)
        with pytest.raises(PullFailed, match="https to http"):
            net.get_small(server.url, named_by_user=True)
        assert plain.asked == []


def test_a_ca_file_that_is_none_names_the_setting(tmp_path: Path) -> None:
    with Net(NetOptions(ca_file=tmp_path / "none.pem")) as net, pytest.raises(InvalidParameter) as caught:
        net.get_small("https://127.0.0.1:1/", named_by_user=True)
    assert caught.value.param == "ca_file"


def test_a_proxy_gets_the_request_and_does_the_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolver(host: str, port: int) -> list[str]:
        assert host == "127.0.0.1", "only the proxy itself is looked up here"
        return [host]

    with Nasty(b"through the proxy") as proxy:
        address = proxy.origin.replace("http://", "http://user:secret@")
        monkeypatch.setenv("HTTP_PROXY", address)
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "direct.example")
        with Net(resolver=resolver) as net:
            assert net.get_small("http://models.example/x.gguf").body == b"through the proxy"
            for private in ("http://127.0.0.1/", "http://169.254.169.254/", "http://localhost/"):
                with pytest.raises(ForbiddenAddress):
                    net.get_small(private)
        with Net(resolver=lambda *_: ["10.0.0.1"]) as net, pytest.raises(ForbiddenAddress):
            net.get_small("http://direct.example/")
    assert [asked.path for asked in proxy.asked] == ["http://models.example/x.gguf"]
    assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


def test_the_options_proxy_goes_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Nasty(b"yes") as proxy, Net(NetOptions(proxy=proxy.origin)) as net:
        assert net.get_small("http://models.example/").body == b"yes"


@pytest.mark.parametrize("proxy", ["gopher://x:1", "http://", "nonsense"])
def test_a_proxy_that_is_none_is_refused_at_once(proxy: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Net(NetOptions(proxy=proxy))
    assert caught.value.param == "proxy"
