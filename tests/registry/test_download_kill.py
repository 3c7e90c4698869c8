"""A downloading process is killed at random moments, again and again; hardly anything is fetched twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.registry.nasty_server import Nasty, content
from tests.registry.partials import present_bytes

SIZE = 16 * 1024 * 1024 + 77
CHILD = """
import sys, threading
from pathlib import Path
from localllm.registry.names.digest import Digest
from localllm.registry.fetch.download import download
from localllm.registry.fetch.net import Net
from localllm.registry.remote import RemoteFile
url, path, digest, size = sys.argv[1:]
file = RemoteFile(file_name="f.gguf", url=url, named_by_user=True, size_bytes=int(size) or None,
                  digest=Digest.parse(digest) if digest else None)
with Net() as net:
    print(download(file, Path(path), net=net, connections=4, on_bytes=lambda n: None, cancel=threading.Event(),
                   require_room=lambda n: None))
"""


def start(server: Nasty, path: Path, known: bool) -> subprocess.Popen[str]:
    given = (str(server.digest), str(SIZE)) if known else ("", "0")
    command = [sys.executable, "-P", "-c", CHILD, server.url, str(path), *given]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("known", [True, False])
def test_a_download_that_is_killed_at_any_moment_fetches_hardly_anything_again(tmp_path: Path, known: bool) -> None:
    """Known files: 2 % a kill, which is what was not noted, and what was in flight. Others 5 %, with the last MiB."""
    again = 0.02 if known else 0.05
    chance = random.Random(known)
    path = tmp_path / "f.part"
    with Nasty(content(SIZE)) as server:
        server.pause_s, server.buffer_bytes = 0.005, 32 * 1024
        kills = sorted(chance.uniform(0.05, 0.95) for _ in range(3))
        for share in kills:
            with start(server, path, known) as child:
                deadline = time.monotonic() + 60
                while server.sent_bytes < share * SIZE:
                    assert child.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
                child.kill()
            there = present_bytes(path, digest=server.digest if known else None, size_bytes=None)
            assert there > (share - again * (1 + kills.index(share))) * SIZE
        with start(server, path, known) as child:
            assert child.stdout is not None
            assert child.stdout.read().strip() == str(server.digest)
        assert child.returncode == 0
        assert path.read_bytes() == server.content
        # The last MiB is fetched once more by whom only that can tell whether the file is still the same.
        assert server.sent_bytes < SIZE * (1 + again * len(kills))
