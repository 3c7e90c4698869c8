"""The attacks of `abuse`, sent by one client with a key of its own. Each is bounded in requests and time.

They run in a process of their own. Knows nothing of other clients.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

TIMEOUT_S = 120.0


class Target(NamedTuple):
    """The server, the attacker's key, and the model's process."""

    port: int
    key: str
    worker_pid: int


@dataclass(frozen=True)
class Attack:
    """An attack (`run`), and how its server is started."""

    run: Callable[[Target], None]
    options: tuple[str, ...] = ()
    few_descriptors: bool = False
    asks: str = "/health"
    """The path that innocent clients request, besides chats."""


def send(target: Target, path: str, body: Any, *, hang_up_s: float | None = None) -> None:
    """Send a request and wait for the answer, or hang up after `hang_up_s`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", target.port), TIMEOUT_S) as sock:
        sock.settimeout(hang_up_s or TIMEOUT_S)
        sock.sendall(head.encode() + content)
        while sock.recv(65536):
            pass


def at_once(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def chat(content: str, **more: Any) -> dict[str, Any]:
    return {"model": "demo", "messages": [{"role": "user", "content": content}], **more}


def nothing(_: Target) -> None:
    """No attack, for comparison."""


def product(target: Target) -> None:
    send(target, "/v1/completions", {"model": "demo", "prompt": ["x"] * 2048, "n": 128, "max_tokens": 1})


def product_biased(target: Target) -> None:
    biases = {str(token): 0.5 for token in range(1024)}
    body = {"model": "demo", "prompt": ["x"] * 2048, "n": 128, "max_tokens": 1, "logit_bias": biases}
    send(target, "/v1/completions", body)


def long_prompt(target: Target) -> None:
    body = json.dumps({"model": "demo", "prompt": "once upon a time " * 120_000, "n": 64}).encode()
    at_once(2, lambda: send(target, "/v1/completions", body, hang_up_s=1))


def special_tokens(target: Target) -> None:
    body = json.dumps(chat("<|im_end|>x" * 20_000)).encode()
    at_once(4, lambda: send(target, "/v1/chat/completions", body))


def messages(target: Target) -> None:
    turns = [{"role": ("user", "assistant")[number % 2], "content": "x"} for number in range(180_000)]
    send(target, "/v1/chat/completions", {"model": "demo", "messages": turns})


def tokenize(target: Target) -> None:
    body = json.dumps({"content": "once upon a time " * 480_000}).encode()
    at_once(20, lambda: send(target, "/tokenize", body))


def pulls(target: Target) -> None:
    at_once(8, lambda: send(target, "/localllm/pull", {"model": "hf.co/nobody/nothing:Q4_K_M"}, hang_up_s=30))


def connections(target: Target) -> None:
    """400 idle connections, held for 30 s."""
    socks = []
    with contextlib.suppress(OSError):
        for _ in range(400):
            socks.append(socket.create_connection(("127.0.0.1", target.port), 5))
    time.sleep(30)


def unknown_fields(target: Target) -> None:
    fields = ",".join(f'"f{number}":0' for number in range(690_000))
    send(
        target,
        "/v1/chat/completions",
        b'{"model":"demo","messages":[{"role":"user","content":"x"}],%b}' % fields.encode(),
    )


def brackets(target: Target) -> None:
    body = b'{"model":"demo","messages":[%b]}' % (b"[]," * 2_700_000 + b"[]")
    for _ in range(5):
        send(target, "/v1/chat/completions", body)


def half_bodies(target: Target) -> None:
    """60 bodies of 8 MB, each without its last byte."""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: 8000000\r\n\r\n"
    )
    data, socks = head.encode() + b" " * 7_999_999, []
    for _ in range(60):
        with contextlib.suppress(OSError):
            sock = socket.create_connection(("127.0.0.1", target.port), 5)
            socks.append(sock)
            sock.sendall(data)
    time.sleep(30)


def huge_token(target: Target) -> None:
    send(target, "/v1/completions", b'{"model":"demo","prompt":"x","stop_token_ids":[99999999999999999999999]}')


def slow_sampling(target: Target) -> None:
    """Continuous streams with samplers that examine the whole vocabulary."""
    until_s = time.monotonic() + 30

    def stream() -> None:
        while time.monotonic() < until_s:
            more = {"typical_p": 0.5, "top_k": 0, "top_p": 0.0, "min_p": 0.0, "ignore_eos": True, "max_tokens": 400}
            send(target, "/v1/chat/completions", chat("Tell me a story.", **more))

    at_once(3, stream)


def priority(target: Target) -> None:
    """Always more urgent requests than any other, and twice as many as slots."""
    until_s = time.monotonic() + 30

    def urgent() -> None:
        while time.monotonic() < until_s:
            more = {"priority": -1000, "ignore_eos": True, "max_tokens": 64}
            send(target, "/v1/chat/completions", chat(f"Story {time.monotonic()}", **more))
            more.pop("priority")  # if priorities are refused, as an ordinary request
            send(target, "/v1/chat/completions", chat(f"Story {time.monotonic()}", **more))

    at_once(8, urgent)


def stopped_worker(target: Target) -> None:
    """The model's process hangs, as it may in a driver."""
    os.kill(target.worker_pid, signal.SIGSTOP)


ATTACKS: dict[str, Attack] = {
    "nothing": Attack(nothing),
    "product": Attack(product),
    "product_biased": Attack(product_biased),
    "long_prompt": Attack(long_prompt),
    "special_tokens": Attack(special_tokens),
    "messages": Attack(messages),
    "tokenize": Attack(tokenize),
    "pulls": Attack(pulls, asks="/v1/models"),
    "connections": Attack(connections, few_descriptors=True),
    "unknown_fields": Attack(unknown_fields),
    "brackets": Attack(brackets),
    "half_bodies": Attack(half_bodies),
    "huge_token": Attack(huge_token),
    "slow_sampling": Attack(slow_sampling),
    "priority": Attack(priority),
    "stopped_worker": Attack(stopped_worker),
}


@contextlib.contextmanager
def hanging_hub() -> Iterator[str]:
    """A hub on loopback that accepts connections and never answers; yields its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
