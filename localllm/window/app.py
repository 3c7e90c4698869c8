"""`localllm app`: connects the server, the window and its menu, and runs until the window is closed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.resources
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from localllm.client.server_process import SidecarExit
from localllm.errors import LocalLLMError, Unavailable, UnsupportedParameter
from localllm.settings.config import Settings
from localllm.system import folders
from localllm.window import menus, place, server, trial
from localllm.window.instance import single
from localllm.window.server import Server
from localllm.window.view import View

INSTALL = 'pip install "localllm[app]"'
INSTALL_VIEW = (
    'pip install "PySide6<6.12" qtpy, or Debian\'s gir1.2-webkit2-4.1 and python3-gi for a Python that sees the '
    "system's packages"
)
RESTART_S = 10.0
"""The window's own server is not restarted if it ran shorter than that."""

Say = Callable[[str], None]


class Options(NamedTuple):
    """Options from the command line."""

    settings: Settings
    model: str | None
    """The model to chat with."""
    arguments: Sequence[str]
    """Arguments of the window's own server."""


def open_window(options: Options, say: Say) -> None:
    """Show the window until it is closed; if one is open already, show that instead.

    Raises `UnsupportedParameter` without pywebview or a screen, and the errors of starting a server.
    """
    folder = options.settings.data_dir / "window"
    with single(folder, options.model) as instance:
        if instance is None:
            say("the window is already open")
            return
        webview = find_webview()
        remembered = place.load(folder / "place.json")
        app = _App(options, say)
        with trial.running() as tried, app.served(remembered.port) as where:
            tried.check()
            app.view = view = View(webview, where, remembered.place, app.menus())
            instance.answer(app.show)
            with _ended_by_signals(view.close):
                try:
                    view.run(folder / "webview", _icon(), app.entered)
                except webview.errors.WebViewException as error:
                    raise _no_view(str(error)) from error
            port = app.own_port()
            place.save(folder / "place.json", place.SavedWindow(place=view.place, port=port or remembered.port))


class _App:
    """Connects the menu and the server to the window. Its methods may block, and run on threads of their own."""

    def __init__(self, options: Options, say: Say) -> None:
        self._options = options
        self._say = say
        self._server: Server | None = None
        self._where: server.Where | None = None
        self._started_s = 0.0
        self.view: View | None = None

    @contextlib.contextmanager
    def served(self, last_port: int) -> Iterator[server.Where]:
        settings, arguments = self._options.settings, list(self._options.arguments)
        with server.begin(settings, arguments, last_port, on_exit=self._server_died, say=self._say) as found:
            self._server = found
            self._started_s = time.monotonic()
            self._where = found.where()
            yield self._where

    def own_port(self) -> int:
        """The port of the window's own server, if it is not the usual one; otherwise 0."""
        assert self._server is not None
        assert self._where is not None
        port = int(self._where.url.rpartition(":")[2])
        return port if self._server.is_own and port != self._options.settings.port else 0

    def menus(self) -> list[menus.Menu]:
        assert self._where is not None
        with self._where.client() as client:
            models = menus.models_menu(
                client.available(),
                choose=self.choose,
                unload_all=self._unload_all,
                show_models=lambda: self._view.switch("models"),
            )
        return [models, menus.view_menu(lambda name: self._view.switch(name), lambda: self._view.reload())]

    def entered(self) -> None:
        """Called when the page is loaded."""
        if self._options.model is not None:
            self.choose(self._options.model)

    def show(self, model: str | None) -> None:
        """Called when the command is started again."""
        self._view.show()
        if model is not None:
            threading.Thread(target=self.choose, args=(model,), name="window-model", daemon=True).start()

    def choose(self, model: str) -> None:
        """Load a model, with progress in the title, and select it in the page."""
        assert self._where is not None
        try:
            with self._where.client() as client:
                id = client.load(model, lambda part: self._view.title(f"Loading {model}: {part:.0%}"))
        except LocalLLMError as error:
            self._view.show_error(f"{model} cannot be loaded", error.message)
            return
        finally:
            self._view.title()
        self._view.choose(id)

    @property
    def _view(self) -> View:
        assert self.view is not None
        return self.view

    def _unload_all(self) -> None:
        assert self._where is not None
        try:
            with self._where.client() as client:
                for process in client.processes():
                    client.unload(process.model)
        except LocalLLMError as error:
            self._view.show_error("Unload all", error.message)

    def _server_died(self, exit: SidecarExit) -> None:
        """Restart the server, on a new thread, because this one belongs to the server that ended."""
        threading.Thread(target=self._restart, args=(exit,), name="window-server", daemon=True).start()

    def _restart(self, exit: SidecarExit) -> None:
        assert self._server is not None
        self._say(f"the window's server ended with {exit.reason}; restarting it")
        try:
            if time.monotonic() - self._started_s < RESTART_S:
                raise Unavailable(f"it ended with {exit.reason} right after its start; end of its log: {exit.stderr}")
            self._started_s = time.monotonic()
            self._where = self._server.restarted()
        except LocalLLMError as error:
            self._view.show_error("The server of this window has ended", error.message)
            self._view.close()
            return
        self._view.enter(self._where)


def find_webview() -> Any:
    """Import pywebview. Raises `UnsupportedParameter` with the remedy if it or a screen is missing."""
    if folders.desktop_data_dir() is not None and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise UnsupportedParameter(
            "there is no screen for a window (neither DISPLAY nor WAYLAND_DISPLAY is set); `localllm serve` and a "
            "browser show the same page",
            param="app",
        )
    try:
        webview = importlib.import_module("webview")
        for part in ("menu", "errors"):
            importlib.import_module(f"webview.{part}")
    except ImportError:
        raise UnsupportedParameter(
            f"a window needs pywebview, which is not installed: {INSTALL}; `localllm serve` and a browser show the "
            "same page",
            param="app",
        ) from None
    return webview


def _no_view(reason: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"pywebview finds no web view: {reason} On Linux: {INSTALL_VIEW}", param="app")


@contextlib.contextmanager
def _ended_by_signals(close: Callable[[], None]) -> Iterator[None]:
    """Close the window on logout and Ctrl-C."""

    def end(*_: object) -> None:
        threading.Thread(target=close, name="window-end", daemon=True).start()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _icon() -> Any:
    return importlib.resources.files("localllm.server.ui").joinpath("icon.svg")
