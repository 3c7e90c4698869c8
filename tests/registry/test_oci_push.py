"""Uploads to a registry that is down for a while: whichever request meets the outage, it is waited out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from localllm.errors import PullFailed
from localllm.registry.fetch.net import Net, SmallResponse
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import RegistryName
from localllm.registry.sources.oci_push import Uploads

DIGEST = Digest("ab" * 32)
LOCATION = "http://localhost:5000/v2/me/tiny/blobs/uploads/1"


class FlakyNet(Net):
    """A registry that answers the requests of one method with `status` until it recovers. Pauses take no time."""

    def __init__(self, method: str, status: int, failures: int) -> None:
        self.pauses: list[float] = []
        super().__init__(pause=self._count_pause, chance=lambda: 0.0)
        self._method, self._status, self._failures = method, status, failures

    def _count_pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        self.pauses.append(seconds)
        is_over()

    def send(self, method: str, url: str, **rest: Any) -> SmallResponse:  # noqa: ARG002
        status, headers = {"HEAD": (404, {}), "POST": (202, {"location": LOCATION}), "PUT": (201, {})}[method]
        if method == self._method and self._failures:
            self._failures -= 1
            status, headers = self._status, {"retry-after": "7"}
        return SmallResponse(status, headers, b"", url)


def uploads(net: Net, waits: list[str]) -> Uploads:
    return Uploads(
        RegistryName("localhost:5000", "me", "tiny"),
        net,
        cancel=threading.Event(),
        on_wait=lambda host, _, why: waits.append(f"{host}: {why}"),
    )


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
def test_an_outage_is_waited_out_as_long_as_the_registry_asks(method: str, status: int) -> None:
    waits: list[str] = []
    net = FlakyNet(method, status, failures=2)
    with net:
        assert uploads(net, waits).blob(DIGEST, 3, lambda: [b"abc"])
    assert net.pauses == [7.0, 7.0]
    assert waits == [f"localhost:5000: localhost:5000 answered {status}"] * 2


def test_what_a_registry_rejects_is_not_sent_again() -> None:
    with FlakyNet("PUT", 400, failures=1) as net, pytest.raises(PullFailed, match="answered 400"):
        uploads(net, []).blob(DIGEST, 3, lambda: [b"abc"])
