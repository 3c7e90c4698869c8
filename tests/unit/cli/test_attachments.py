"""Which files of a line are sent, what a file is, and why one is refused. Without a model."""

from __future__ import annotations

import io
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from localllm.cli.chat import dropped
from localllm.cli.chat.attachments import Attachments, Bounds
from localllm.cli.chat.media_look import is_media, look
from localllm.errors import InvalidParameter
from localllm.types.conversation import HEAD_BYTES
from tests.documents import made
from tests.pictures import LARGE, SMALL, WAV


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.png", "b c.png", "it's.png"):
        (tmp_path / name).write_bytes(SMALL)
    (tmp_path / "c.wav").write_bytes(WAV)
    (tmp_path / "rent.pdf").write_bytes(made.pdf(["Rent is due."]))
    (tmp_path / "notes.txt").write_text("BMW and ID3 tags")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "names", "text"),
    [
        ("a.png what is this?", ["a.png"], "what is this?"),
        ("what is in a.png?", ["a.png"], "what is in a.png?"),
        ("{here}/a.png", ["a.png"], ""),
        ("'{here}/b c.png' \"{here}/a.png\" what?", ["b c.png", "a.png"], "what?"),
        ("{here}/b\\ c.png what?", ["b c.png"], "what?"),
        ("'{here}/it'\\''s.png' what?", ["it's.png"], "what?"),
        ("file://{here}/b%20c.png what?", ["b c.png"], "what?"),
        ("hear ./c.wav, please", ["c.wav"], "hear c.wav, please"),
        ("what's in a.png, it's red", ["a.png"], "what's in a.png, it's red"),
        (" a.png with a space before it", [], " a.png with a space before it"),
        ("a log:\na.png failed", [], "a log:\na.png failed"),
        ("{here}/rent.pdf what is due?", ["rent.pdf"], "what is due?"),
        ("compare rent.pdf with {here}/notes.txt", ["rent.pdf"], None),
        ("{here}/notes.txt what is it?", ["notes.txt"], "what is it?"),
        ("notes.txt what is it?", [], None),
        ("read notes.txt, missing.png and https://example.com/a.png", [], None),
    ],
)
def test_a_line_sends_the_pictures_and_sounds_that_it_names(
    folder: Path, line: str, names: list[str], text: str | None
) -> None:
    line = line.replace("{here}", folder.as_posix())
    found = dropped.find(line)
    assert [Path(path).name for path in found.paths] == names
    assert found.text == (line if text is None else text)


def test_a_document_is_attached_with_its_pages_and_anything_goes_as_a_file(folder: Path) -> None:
    attachments = Attachments()
    found = attachments.open("rent.pdf#pages=2-3", "document")
    assert (found.kind, found.pages, found.name) == ("document", "2-3", "rent.pdf")
    assert found.shown.startswith("[rent.pdf, pages 2-3, ")
    (folder / "odd#pages=1.txt").write_text("x")
    assert attachments.open("odd#pages=1.txt", "document").pages == ""
    assert [attachments.open(name, "document").kind for name in ("notes.txt", "a.png", "c.wav")] == [
        "document", "image", "audio",
    ]  # fmt: skip
    with pytest.raises(InvalidParameter, match="is no picture but a document; --file and /file take it"):
        attachments.open("rent.pdf", "image")


@given(st.text(string.printable))
def test_a_line_that_names_no_file_is_sent_as_it_is(line: str) -> None:
    assert dropped.find(line) == ((), line)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP"])
def test_pictures_are_known_by_their_content_and_shown_upright(format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    sink = io.BytesIO()
    Image.new("RGB", (30, 20)).save(sink, format=format, **({"exif": exif} if format == "JPEG" else {}))
    data = sink.getvalue()
    found = look(data)
    assert found == ("image", "20x30" if format == "JPEG" else "30x20")
    assert is_media(data[:HEAD_BYTES])
    assert not is_media(data[:2].decode("latin-1").encode() + b" is the beginning of a text")
    for cut in range(0, len(data), 7):
        look(data[:cut])


def test_what_cannot_be_sent_is_refused_in_words(folder: Path) -> None:
    attachments = Attachments(Bounds(max_bytes=len(LARGE) - 1, max_document_bytes=len(LARGE) - 1))
    (folder / "large.png").write_bytes(LARGE)
    (folder / "empty.png").touch()
    for given_path, words in (
        ("large.png", "large.png has more than .* at most .* bytes are read .setting max_document_bytes"),
        ("empty.png", "is no picture: the file is empty"),
        ("missing.png", "missing.png cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("notes.txt", "notes.txt is no picture that can be read .JPEG"),
        ("c.wav", "c.wav is no picture but a sound; --audio and /audio take it"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            attachments.open(given_path, "image")
    assert attachments.open("~/c.wav").shown == "[c.wav, 0.1 s]"
