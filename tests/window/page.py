"""The page inside a window, over the web view's own debugging protocol. Playwright asks Qt for what it has not."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from typing import Any

import httpx
from websockets.sync.client import connect

TIMEOUT_S = 60.0
LOOK_S = 2.0


class Navigated(Exception):
    """The page went while it was asked."""


class Page:
    """Evaluates in the page as its own scripts would, and counts what its policy refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._last_id = 0
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(self._target()["webSocketDebuggerUrl"], max_size=None))

    def evaluate(self, expression: str, timeout_s: float = TIMEOUT_S + 10) -> Any:
        """Its value, awaited; as if a person had just clicked."""
        result = self._send(
            "Runtime.evaluate",
            timeout_s,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, condition: str) -> Any:
        """The first true value of an expression; the page itself looks again, and so does the next page."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            with suppress(Navigated):
                found = self._look(condition)
                if found is not None:
                    return found["value"]
        raise AssertionError(f"never true: {condition}")

    def _look(self, condition: str) -> Any:
        """For a while: a page that goes at the wrong moment leaves a question without an answer. What a page does not
        have yet, such as an element that is asked for its value, is not true."""
        return self.evaluate(
            f"new Promise((found) => {{ const end = Date.now() + {LOOK_S * 1000}; const look = async () => "
            f"{{ const value = await (async () => ({condition}))().catch(() => null); "
            f"if (value || Date.now() > end) found(value ? {{ value }} : null); "
            f"else setTimeout(look, 30); }}; look(); }})",
            timeout_s=LOOK_S + 10,
        )

    def close(self) -> None:
        self._open.close()

    def _send(self, method: str, timeout_s: float, **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": parameters}))
        while True:
            try:
                answer = json.loads(self._socket.recv(timeout_s))
            except TimeoutError:
                raise Navigated from None
            if answer.get("id") == self._last_id:
                if "context was destroyed" in str(answer.get("error")):
                    raise Navigated
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _target(self) -> dict[str, Any]:
        """Once the page itself is there, not what precedes it."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                for each in httpx.get(f"http://127.0.0.1:{self._port}/json", trust_env=False).json():
                    if "#" in each["url"]:
                        found: dict[str, Any] = each
                        return found
            except httpx.HTTPError:
                pass  # the web view does not listen yet
            assert time.monotonic() < deadline_s, "the window shows no page"
            time.sleep(0.05)
