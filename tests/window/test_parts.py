"""What the window is made of, without a window: its place, its single instance, its menu, its desktop entry."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm import Unavailable
from localllm.errors import UnsupportedParameter
from localllm.types.states import AvailableModel
from localllm.window import desktop, instance, menus, trial
from localllm.window.instance import Address, Call, single
from localllm.window.place import MIN_HEIGHT, MIN_WIDTH, Rect, SavedWindow, WindowGeometry, load, on_screen, save
from localllm.window.server import Where
from localllm.window.view import View

SCREEN = Rect(0, 0, 1920, 1080)
pixels = st.integers(-5000, 5000)
places = st.builds(
    WindowGeometry,
    width=st.integers(MIN_WIDTH, 6000),
    height=st.integers(MIN_HEIGHT, 6000),
    x=st.none() | pixels,
    y=st.none() | pixels,
    maximized=st.booleans(),
)
rects = st.builds(Rect, pixels, pixels, st.integers(640, 4000), st.integers(480, 4000))


@given(places, st.lists(rects, min_size=1, max_size=3))
def test_a_window_opens_where_it_can_be_seen_and_is_no_larger_than_a_screen(
    place: WindowGeometry, screens: list[Rect]
) -> None:
    found = on_screen(place, screens)
    assert found.width <= max(screen.width for screen in screens)
    assert found.height <= max(screen.height for screen in screens)
    assert (found.x is None) == (found.y is None)
    if found.x is not None and found.y is not None:
        assert any(
            screen.x - found.width < found.x < screen.x + screen.width
            and screen.y <= found.y < screen.y + screen.height
            for screen in screens
        )
    assert on_screen(found, screens) == found


def test_a_window_that_is_in_sight_stays_where_it_is() -> None:
    place = WindowGeometry(width=800, height=600, x=-700, y=500)
    assert on_screen(place, [SCREEN]) == place


@given(places, st.integers(0, 65535))
def test_what_is_remembered_comes_back(
    tmp_path_factory: pytest.TempPathFactory, place: WindowGeometry, port: int
) -> None:
    path = tmp_path_factory.mktemp("place") / "place.json"
    save(path, SavedWindow(place=place, port=port))
    assert load(path) == SavedWindow(place=place, port=port)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"place": {"width": 3}}', b'{"place": {"x": 1e300}}', b'{"port": 65536}', b"\xff\xfe"],
)
def test_a_file_that_makes_no_sense_is_a_window_of_the_usual_size(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "place.json"
    path.write_bytes(content)
    assert load(path) == SavedWindow()


def test_a_second_start_has_the_first_shown_with_its_model(tmp_path: Path) -> None:
    shown: list[str | None] = []
    with single(tmp_path) as first:
        assert first is not None
        first.answer(shown.append)
        with single(tmp_path, "qwen3:0.6b") as second:
            assert second is None
        with single(tmp_path) as third:
            assert third is None
    assert shown == ["qwen3:0.6b", None]
    with single(tmp_path) as next_one:
        assert next_one is not None


def test_a_second_start_waits_for_a_first_that_is_not_yet_there(tmp_path: Path) -> None:
    """The first holds the lock for as long as it takes it to find its web view."""
    shown = threading.Event()
    with single(tmp_path) as first:
        assert first is not None
        timer = threading.Timer(0.3, lambda: first.answer(lambda _: shown.set()))
        timer.start()
        with single(tmp_path) as second:
            assert second is None
        timer.join()
    assert shown.is_set()


def test_a_first_one_that_never_answers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "ANSWER_S", 0.2)
    monkeypatch.setattr(instance, "CALL_S", 0.1)
    with single(tmp_path) as first, pytest.raises(Unavailable, match="does not answer"), single(tmp_path):
        assert first is not None


@pytest.mark.skipif(os.name == "nt", reason="a signal of POSIX")
def test_a_window_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from localllm.window.instance import single\n"
        "with single(Path(sys.argv[1])): print('there', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "there\n"
    child.kill()
    child.communicate()
    assert (tmp_path / "address.json").exists()
    with single(tmp_path) as next_one:
        assert next_one is not None


@pytest.mark.parametrize(
    "words",
    [b"\n", b"{}\n", b'{"secret": "wrong"}\n', b'{"secret": 3}\n', b"GET / HTTP/1.1\r\n\r\n", b"x" * 10_000, b""],
    ids=["nothing", "empty", "wrong", "number", "http", "long", "gone"],
)
def test_who_does_not_know_the_secret_shows_nothing(tmp_path: Path, words: bytes) -> None:
    shown: list[str | None] = []
    with single(tmp_path) as first:
        assert first is not None
        first.answer(shown.append)
        address = msgspec.json.decode((tmp_path / "address.json").read_bytes(), type=Address)
        with socket.create_connection(("127.0.0.1", address.port)) as stranger:
            stranger.sendall(words)
            with contextlib.suppress(OSError):  # what was not read is a reset
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(100) == b""
        with socket.create_connection(("127.0.0.1", address.port)) as friend:
            friend.sendall(msgspec.json.encode(Call(address.secret, "m")) + b"\n")
            assert friend.recv(100) == b"shown\n"
    assert shown == ["m"]


def test_a_window_that_could_not_be_shown_is_logged_and_the_next_call_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def show(model: str | None) -> None:
        if model == "bad":
            raise RuntimeError("the toolkit is gone")

    with single(tmp_path) as first:
        assert first is not None
        first.answer(show)
        address = msgspec.json.decode((tmp_path / "address.json").read_bytes(), type=Address)
        for model, answer in (("bad", b""), ("good", b"shown\n")):
            with socket.create_connection(("127.0.0.1", address.port)) as friend:
                friend.settimeout(10)
                friend.sendall(msgspec.json.encode(Call(address.secret, model)) + b"\n")
                assert friend.recv(100) == answer
    assert "the toolkit is gone" in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_the_secret_is_the_users_own(tmp_path: Path) -> None:
    with single(tmp_path / "window"):
        assert stat.S_IMODE((tmp_path / "window").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "window" / "address.json").stat().st_mode) == 0o600


class Toolkit:
    """As much of pywebview as saving needs."""

    FileDialog = SimpleNamespace(SAVE=1)

    def __init__(self, chosen: Path) -> None:
        self.chosen = chosen
        self.said: list[str] = []

    def create_window(self, _title: str, url: str, **_: object) -> Toolkit:
        self.url = url
        self.events = SimpleNamespace(**{name: Event() for name in ("loaded", "closing", "maximized", "restored")})
        return self

    def run_js(self, script: str) -> None: ...

    def get_current_url(self) -> str:
        return self.url

    def create_file_dialog(self, _: int, save_filename: str) -> tuple[str]:
        return (str(self.chosen / save_filename),)

    def create_confirmation_dialog(self, _: str, text: str) -> None:
        self.said.append(text)


class Event:
    def __iadd__(self, _: object) -> Event:
        return self


def test_a_chat_that_cannot_be_saved_where_the_user_chose_names_that_place_and_no_home(tmp_path: Path) -> None:
    toolkit = Toolkit(tmp_path / "gone")
    view = View(toolkit, Where("http://127.0.0.1:1", None), WindowGeometry(), ())
    assert not view.save("chat.md", "text")
    (said,) = toolkit.said
    assert str(tmp_path / "gone" / "chat.md") in said
    assert "check the path" in said
    assert "LOCALLLM_HOME" not in said


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ('Cannot load library /x/libqxcb.so: (libxcb-cursor.so.0: cannot open shared object file: No such file)\n'
         'qt.qpa.plugin: Could not load the Qt platform plugin "xcb" in "" even though it was found.',
         r"needs libxcb-cursor.so.0, which this system lacks \(on Debian: sudo apt install libxcb-cursor0\)"),
        ("libnss3.so: cannot open shared object file\nlibxkbcommon-x11.so.0: cannot open shared object file",
         r"apt install libnss3 libxkbcommon-x11-0\)"),
        ("libdbus-1.so.3: cannot open shared object file\nlibEGL.so.1: cannot open shared object file",
         r"apt install libdbus-1-3 libegl1\)"),
        ("This application failed to start\n\n", "Qt cannot open a window: This application failed to start"),
    ],
)  # fmt: skip
def test_what_qt_lacks_is_said_with_the_package_that_has_it(errors: str, says: str) -> None:
    assert re.search(says, trial.why(errors))


@pytest.mark.skipif(importlib.util.find_spec("PySide6") is None, reason="no Qt")
def test_a_screen_that_cannot_be_opened_is_an_error_and_no_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DISPLAY", ":7777"), ("QT_QPA_PLATFORM", "xcb"), ("PYWEBVIEW_GUI", "qt")):
        monkeypatch.setenv(name, value)
    with trial.running() as tried, pytest.raises(UnsupportedParameter, match="screen ':7777' cannot be opened"):
        tried.check()


def test_the_menu_lists_what_can_be_loaded_and_does_it() -> None:
    chosen: list[str] = []
    models = [
        AvailableModel(id="b", size_bytes=1, created_unix_s=1),
        AvailableModel(id="a", size_bytes=1, created_unix_s=2),
        AvailableModel(id="broken", size_bytes=1, created_unix_s=2, problem="a file is missing"),
    ]
    menu = menus.models_menu(
        models, choose=chosen.append, unload_all=lambda: chosen.append("none"), show_models=lambda: chosen.append("all")
    )
    assert [item.title for item in menu.items] == ["a", "b", "demo", "", "Unload all", "Find and remove"]
    for item in menu.items:
        if item.act is not None:
            item.act()
    assert chosen == ["a", "b", "demo", "none", "all"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such shell")
@given(st.lists(st.text(st.characters(exclude_characters="\n\t\0", codec="utf-8"), min_size=1), min_size=1, max_size=4))
def test_the_entry_of_the_desktop_starts_what_was_meant_whatever_its_path(words: list[str]) -> None:
    """Read back as the specification says: the file's escapes first, then quotes as a shell has them, then `%%`."""
    [line] = [line for line in desktop.entry(words).split("\n") if line.startswith("Exec=")]
    unescaped = line.removeprefix("Exec=").replace("\\\\", "\\")
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {unescaped}"], capture_output=True, check=True)
    assert [word.replace("%%", "%") for word in done.stdout.decode().split("\0")[:-1]] == words


def test_the_entry_of_the_desktop_is_written_with_its_icon(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "localllm", "app", "--install-desktop"],
        env=os.environ | {"XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if sys.platform != "linux":
        assert "no .desktop files" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    entry, icon = map(Path, done.stdout.split())
    assert entry == tmp_path / "applications" / "localllm.desktop"
    assert " app\n" in entry.read_text("utf-8")
    assert icon.read_bytes().startswith(b"<svg")


WITHOUT = """
import sys
sys.modules["webview"] = None
from localllm.cli import main
sys.argv = ["localllm", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("display", "remedy"),
    [(":99", 'pip install "localllm[app]"'), ("", "no screen for a window")],
    ids=["no pywebview", "no screen"],
)
def test_what_is_missing_for_a_window_is_named_with_the_remedy(tmp_path: Path, display: str, remedy: str) -> None:
    if sys.platform != "linux" and not display:
        pytest.skip("a desktop is always there")
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT, "app", "--home", str(tmp_path)],
        env={**os.environ, "DISPLAY": display, "WAYLAND_DISPLAY": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert remedy in done.stderr
    assert "`localllm serve` and a browser show the same page" in done.stderr


def test_importing_localllm_or_its_command_line_imports_no_window() -> None:
    code = (
        "import sys, localllm.cli.app; print([n for n in sys.modules if n.startswith(('webview', 'localllm.window'))])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
