"""The page inside a window, over the web view's own debugging protocol. Playwright asks Qt for what it has not."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import httpx
from websockets.sync.client import connect

TIMEOUT_S = 60.0


class Navigated(Exception):
    """The page went while it was asked."""


class Page:
    """Evaluates in the page as its own scripts would, and counts what its policy refused."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._last_id = 0
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(self._target()["webSocketDebuggerUrl"], max_size=None))

    def evaluate(self, expression: str) -> Any:
        """Its value, awaited; as if a person had just clicked."""
        result = self._send(
            "Runtime.evaluate",
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
        try:
            return self._wait(condition)
        except Navigated:
            return self.wait(condition)

    def _wait(self, condition: str) -> Any:
        return self.evaluate(
            f"new Promise((found, failed) => {{ const end = Date.now() + {TIMEOUT_S * 1000}; const look = async () => "
            f"{{ const value = await ({condition}); if (value) found(value); else if (Date.now() > end) "
            f"failed(new Error({json.dumps(condition)})); else setTimeout(look, 30); }}; look(); }})"
        )

    def close(self) -> None:
        self._open.close()

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(TIMEOUT_S + 10))
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
