"""llama-cpp-python's own wheels from an index of its form, on loopback: real pip, and the libraries of the package."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from localllm.llama.runtimes import installed
from localllm.types import upstream
from tests.registry.loopback import Answer, LoopbackServer

STEM = f"llama_cpp_python-{upstream.PACKAGE_VERSION}"
FILE = f"{STEM}-py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl"


class Said(NamedTuple):
    """What a command printed and returned."""

    code: int
    out: str
    words: str


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The package's libraries where its own build puts them."""
    path, own = tmp_path_factory.mktemp("wheel") / FILE, installed.find()
    with zipfile.ZipFile(path, "w") as archive:
        for library in own.library_dir.iterdir():
            archive.write(library, f"llama_cpp/lib/{library.name}")
        for variant in own.variants.values():
            archive.write(variant, f"bin/{variant.name}")
        archive.writestr("llama_cpp/__init__.py", "raise AssertionError('nobody imports it')")
        about = f"Metadata-Version: 2.1\nName: {upstream.PACKAGE}\nVersion: {upstream.PACKAGE_VERSION}\n"
        archive.writestr(f"{STEM}.dist-info/METADATA", about)
        archive.writestr(f"{STEM}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{STEM}.dist-info/RECORD", "")
    return path.read_bytes()


@contextlib.contextmanager
def published(content: bytes, kind: str = "cpu") -> Iterator[tuple[LoopbackServer, str]]:
    """An index whose page links to files at another path, and says nothing of their content."""
    with LoopbackServer() as server:
        file = f"/releases/download/v{upstream.PACKAGE_VERSION}-{kind}/{FILE}"
        links = f'<h2>v{upstream.PACKAGE_VERSION}</h2>\n<a href="{server.url}{file}">{server.url}{file}</a>\n<br>\n'
        page = f"<!DOCTYPE html>\n<html>\n  <body>\n{links}  </body>\n</html>\n"
        html = (("content-type", "text/html"),)
        server.scripted[f"/whl/{kind}/{upstream.PACKAGE}/"] = Answer(200, page.encode(), html)
        server.scripted[file] = Answer(200, content)
        yield server, f"{server.url}/whl/{kind}"


def runtime(home: Path, *arguments: str, **environment: str) -> Said:
    """`localllm runtime`; what it says on one line."""
    command = [sys.executable, "-P", "-m", "localllm", "runtime", *arguments, "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    return Said(done.returncode, done.stdout, " ".join(done.stderr.split()))


def test_its_libraries_are_tested_and_used_and_their_hash_is_said_and_kept(wheel: bytes, tmp_path: Path) -> None:
    digest = hashlib.sha256(wheel).hexdigest()
    with published(wheel) as (server, url):
        said = runtime(tmp_path, "install", "cpu", "--index", f"{url}/")
        assert said.code == 0, said.words
        assert f"{server.host}/whl/cpu, which publishes no hashes" in said.words
        assert digest in said.words
        (row,) = [each for each in json.loads(runtime(tmp_path, "list", "--json").out) if each["name"] == "cpu-0.5"]
        assert (row["source"], row["sha256"], row["why_not"], row["lacks"]) == (url, digest, "", [])
        assert row["llama_cpp"].startswith("0.5 ")
        assert runtime(tmp_path, "remove", "cpu-0.5").code == 0

        server.scripted = {path: _other(answer) for path, answer in server.scripted.items()}
        said = runtime(tmp_path, "install", "cpu", "--index", url)
        other = hashlib.sha256(wheel + b"\0").hexdigest()
        assert said.code == 4
        assert f"has the SHA-256 {other}, but had {digest} when it was installed here" in said.words
        said = runtime(tmp_path, "install", "cpu", "--index", url, "--sha256", digest)
        assert said.code == 4
        assert "DO NOT MATCH THE HASHES" in said.words
        assert runtime(tmp_path, "install", "cpu", "--index", url, "--sha256", other.upper()).code == 0
        assert runtime(tmp_path, "remove", "cpu-0.5").code == 0
        assert runtime(tmp_path, "install", "cpu", "--index", url).code == 0, "what was asked for is known from now on"


def _other(answer: object) -> Answer:
    """A wheel of the same name with other bytes behind it."""
    assert isinstance(answer, Answer)
    return answer._replace(body=answer.body + b"\0") if answer.body.startswith(b"PK") else answer


def test_a_wheel_without_the_backend_that_was_asked_for_is_refused(wheel: bytes, tmp_path: Path) -> None:
    with published(wheel, "cu124") as (_, url):
        said = runtime(tmp_path, "install", "cuda12", "--index", url)
    assert said.code == 4
    assert "contains no backend for cuda12, but ggml-base" in said.words
    assert list((tmp_path / "runtimes").iterdir()) == []


def test_no_other_place_of_pips_configuration_is_looked_at(wheel: bytes, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / FILE).write_bytes(wheel)
    with LoopbackServer() as empty, published(wheel) as (other, url):
        html = (("content-type", "text/html"),)
        empty.scripted[f"/{upstream.PACKAGE}/"] = Answer(200, b"<!DOCTYPE html><html><body></body></html>", html)
        places = {"PIP_EXTRA_INDEX_URL": url, "PIP_FIND_LINKS": str(tmp_path / "links")}
        said = runtime(tmp_path / "home", "install", "cpu", "--index", empty.url, **places)
        assert said.code == 4
        assert "No matching distribution" in said.words
        assert other.asked == []
