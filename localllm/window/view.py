"""The window: pywebview with the page of a server. Knows no models and starts no server.

The window passes the key to the page by running a script before the page is loaded, so that the key is in no URL and
on no command line. pywebview may store it with the session's data, in a folder that only the user can read. Its own API
for pages needs `eval`, which the page's policy forbids; `bridge.js` works without it.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localllm.errors import sentence_of
from localllm.window.menus import Item, Menu
from localllm.window.place import MIN_HEIGHT, MIN_WIDTH, Rect, WindowGeometry, on_screen
from localllm.window.server import Where

TITLE = "localllm"
ENTRANCE = "/ui/entrance.html"
"""An empty page of the same origin, shown until the page has its key."""
KEY = "localllm.key"
"""Name under which the page stores its key, for this tab (`server/ui/api.js`)."""


class View:
    """One window. `run` returns when it is closed; meanwhile, all other methods may be called from any thread."""

    def __init__(self, webview: Any, where: Where, place: WindowGeometry, menus: Sequence[Menu]) -> None:
        self._webview = webview
        self._where = where
        self._place = place
        self._is_maximized = place.maximized
        self._on_entered: Callable[[], None] | None = None
        self._window = webview.create_window(
            TITLE,
            f"{where.url}{ENTRANCE}",
            js_api=_Api(self),
            width=place.width,
            height=place.height,
            x=place.x,
            y=place.y,
            maximized=place.maximized,
            min_size=(MIN_WIDTH, MIN_HEIGHT),
            menu=[self._drawn(menu) for menu in menus],
            text_select=True,
            zoomable=True,
            draggable=True,  # these three keep pywebview's style sheet and listeners out of the page
        )
        self._window.evaluate_js = self._window.run_js  # pywebview answers calls with it, and the original needs `eval`
        events = self._window.events
        events.loaded += self._enter_or_equip
        events.closing += self._remember
        events.maximized += self._now_maximized
        events.restored += self._now_restored

    @property
    def place(self) -> WindowGeometry:
        """Its place when it was closed."""
        return self._place

    def run(self, storage: Path, icon: Path, on_entered: Callable[[], None]) -> None:
        """Show it until it is closed. `storage`: the page's data. `on_entered`: called once the page is loaded.

        Must be called on the main thread. Raises pywebview's `WebViewException` if there is no web view.
        """
        self._on_entered = on_entered
        self._webview.start(self._bring_into_sight, private_mode=False, storage_path=str(storage), icon=str(icon))

    def show(self) -> None:
        """Bring it to the front, even if it was hidden or minimized."""
        self._window.show()
        self._window.restore()
        if self._is_maximized:
            self._window.maximize()

    def close(self) -> None:
        self._window.destroy()

    def enter(self, where: Where) -> None:
        """Show the page of this server, with its key."""
        self._where = where
        self._window.load_url(f"{where.url}{ENTRANCE}")

    def choose(self, model: str) -> None:
        """Have the page chat with this model."""
        self._run(f'window.dispatchEvent(new CustomEvent("localllm:model", {{detail: {json.dumps(model)}}}))')

    def switch(self, view: str) -> None:
        """Switch to a view of the page."""
        self._run(f"location.hash = {json.dumps('#' + view)}")

    def reload(self) -> None:
        self._run("location.reload()")

    def title(self, doing: str = "") -> None:
        self._window.set_title(f"{doing} - {TITLE}" if doing else TITLE)

    def show_error(self, title: str, text: str) -> None:
        """Show an error in a dialog; returns when it is closed."""
        self._window.create_confirmation_dialog(title, text)

    def save(self, name: str, text: str) -> bool:
        """Save a text that the page exports to a file chosen by the user; returns whether it was saved."""
        if not self._is_ours():
            return False
        chosen = self._window.create_file_dialog(self._webview.FileDialog.SAVE, save_filename=name)
        if not chosen:
            return False
        path = Path(chosen if isinstance(chosen, str) else chosen[0])
        try:
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            self.show_error(TITLE, sentence_of(error, is_in_home=False))
            return False
        return True

    def _is_ours(self) -> bool:
        return str(self._window.get_current_url() or "").startswith(f"{self._where.url}/")

    def _run(self, script: str) -> None:
        self._window.run_js(f"if (location.origin === {json.dumps(self._where.url)}) {{ {script}; }}")

    def _enter_or_equip(self) -> None:
        if not self._is_ours():
            return
        if str(self._window.get_current_url()).endswith(ENTRANCE):
            token = self._where.token
            keep = f"setItem({json.dumps(KEY)}, {json.dumps(token)})" if token else f"removeItem({json.dumps(KEY)})"
            self._run(f'sessionStorage.{keep}; location.replace("/")')
            return
        self._run(importlib.resources.files("localllm.window").joinpath("bridge.js").read_text("utf-8"))
        if self._on_entered is not None:
            entered, self._on_entered = self._on_entered, None
            entered()

    def _bring_into_sight(self) -> None:
        """Move it onto a screen, if its last one is gone. Screens are known only after pywebview has started."""
        found = self._webview.screens
        first = found[0]
        screens = [Rect(each.x - first.x, each.y - first.y, each.width, each.height) for each in found]
        place = on_screen(self._place, screens)
        if place != self._place and not self._place.maximized:
            self._window.resize(place.width, place.height)
            if place.x is None or place.y is None:
                x, y = (first.width - place.width) // 2, (first.height - place.height) // 2
                self._window.move(first.x + max(0, x), first.y + max(0, y))

    def _remember(self) -> None:
        native = self._window.native
        if self._is_maximized:
            self._place = WindowGeometry(
                width=self._place.width, height=self._place.height, x=self._place.x, y=self._place.y, maximized=True
            )
            return
        # Qt's reported `x` excludes the frame, but moving includes it.
        x, y = (native.x(), native.y()) if callable(getattr(native, "frameGeometry", None)) else self._corner()
        width, height = max(MIN_WIDTH, int(self._window.width)), max(MIN_HEIGHT, int(self._window.height))
        first = self._webview.screens[0]  # new windows are placed relative to it
        self._place = WindowGeometry(width=width, height=height, x=int(x) - first.x, y=int(y) - first.y)

    def _corner(self) -> tuple[int, int]:
        return self._window.x, self._window.y

    def _now_maximized(self) -> None:
        self._is_maximized = True

    def _now_restored(self) -> None:
        self._is_maximized = False

    def _drawn(self, menu: Menu) -> Any:
        made = self._webview.menu
        return made.Menu(menu.title, [self._line(item) for item in menu.items])

    def _line(self, item: Item) -> Any:
        made = self._webview.menu
        return made.MenuSeparator() if item.act is None else made.MenuAction(item.title, item.act)


class _Api:
    """Methods that the page may call. For names with `_`, pywebview creates no function in the page, which its policy
    would forbid."""

    def __init__(self, view: View) -> None:
        self.__view = view

    def _save(self, name: object, text: object) -> bool:
        """Called by `bridge.js`."""
        return isinstance(name, str) and isinstance(text, str) and self.__view.save(Path(name).name, text)
