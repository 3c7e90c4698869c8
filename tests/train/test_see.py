"""`python models/demo/see.py`: libmtmd computes the rows that PyTorch trained."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("sklearn", reason="needs the extra `train`")
pytest.importorskip("tokenizers", reason="needs the extra `train`")

import pictures  # noqa: E402
from encoder import Encoder, Eye, pixels, write  # noqa: E402

from localllm.llama import library  # noqa: E402
from localllm.llama.media.projector import Pixels, Projector  # noqa: E402
from localllm.llama.probes import selftest  # noqa: E402
from localllm.registry.resolve import carried  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_libmtmd_computes_the_same_rows(home: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = Encoder(Eye())
    with torch.no_grad():  # untrained parameters in which nothing is zero or one
        for parameter in encoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    write(tmp_path / "mmproj.gguf", encoder, "test")
    loaded = library.load(selftest.choose(home).choice)
    projector = Projector(loaded, carried("demo.gguf"), tmp_path / "mmproj.gguf", kind="janus_pro")
    _, picture = pictures.draw_shapes(random.Random(1))
    picture = picture.resize((48, 48))
    (rows,) = projector.read(Pixels(48, 48, picture.tobytes())).encode(0, 1)
    with torch.no_grad():
        expected = encoder(torch.from_numpy(pixels(picture, Eye()).copy())[None].float() / 127.5 - 1)[0].numpy()
    assert rows.shape == expected.shape == (16, 256)
    error = np.sqrt(((rows - expected) ** 2).mean() / (expected**2).mean())
    assert error < 0.02, "Q8_0 loses about half a percent"


@pytest.mark.slow
def test_a_minute_of_training_lowers_the_loss_and_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "mmproj.gguf"
    more = ["--pool", "300", "--state", str(tmp_path / "eye.pt"), "--out", str(out)]
    command = [sys.executable, str(ROOT / "models/demo/see.py"), "--minutes", "0.1", "0.1", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert out.stat().st_size < 2_000_000
