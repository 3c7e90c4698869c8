"""What is trained in PyTorch is what llama.cpp computes: the same tokens, the same logits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("tokenizers", reason="needs the extra `train`")

import copying  # noqa: E402
import export  # noqa: E402
import fit  # noqa: E402
import tokenizer as bpe  # noqa: E402
from corpus import mix  # noqa: E402
from network import Network, Shape  # noqa: E402

from localllm.engine.backend import Segment  # noqa: E402
from localllm.llama import library  # noqa: E402
from localllm.llama.backend import LlamaBackend, open_backend  # noqa: E402
from localllm.llama.context import Batching, KvMemory  # noqa: E402
from localllm.llama.model import LlamaModel  # noqa: E402
from localllm.llama.probes import selftest  # noqa: E402

SHAPE = Shape(layers=2, hidden=256)


@pytest.fixture(scope="module")
def words() -> Any:
    return bpe.train(mix.texts(3, 1500))


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    network = Network(SHAPE)
    copying.prime(network, torch.Generator().manual_seed(0))
    return network


@pytest.fixture(scope="module")
def backend(words: Any, network: Any, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaBackend]:
    path = tmp_path_factory.mktemp("export") / "model.gguf"
    export.write_model(path, network, words, mix.TEMPLATE, "test")
    loaded = library.load(selftest.choose(home).choice)
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(256, 1), Batching(256), threads=2)
    yield backend
    backend.free()
    model.close()


def test_llama_cpp_computes_the_same_logits(backend: LlamaBackend, network: Any) -> None:
    tokens = random.Random(0).choices(range(20, 4096), k=60)
    backend.decoder.decode([Segment(0, 0, tokens, num_outputs=1)])
    theirs = backend.decoder.logits(0)[-1].copy()
    with torch.no_grad():
        ours = network(torch.tensor([tokens]))[0, -1].numpy()
    # F16 weights, and llama.cpp rounds activations to F16 before it multiplies
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=0.02 * float(np.abs(ours).max()))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=80) | st.sampled_from([*mix.texts(4, 40)]))
def test_llama_cpp_reads_the_same_tokens(backend: LlamaBackend, words: Any, text: str) -> None:
    assert backend.vocab.tokenize(text, add_special=False) == words.encode(text, add_special_tokens=False).ids


def test_a_conversation_is_practised_from_its_answers(words: Any) -> None:
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\nHello!<|im_end|>\n"
    ids, practised = bpe.encode(words, [text, text])
    always = words.decode([int(i) for i in ids[practised == 1.0]], skip_special_tokens=False)
    assert always == "Hm.\n</think>\n\nHello!<|im_end|>" * 2
    assert words.decode([int(i) for i in ids], skip_special_tokens=False) == ("<|endoftext|>" + text) * 2


@pytest.mark.parametrize("room", [40, 300])
def test_rows_hold_every_conversation_once_and_whole(room: int) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 39, 500)
    ids = np.ones(sizes.sum(), np.uint16)
    ids[np.cumsum(sizes) - sizes] = 0
    tokens = fit.Tokens(ids, np.ones(len(ids), np.float32), 0)
    rows = fit.pack(tokens, room, rng)
    parts = sorted((part.start, part.stop) for row in rows for part in row)
    assert parts == [(int(end - size), int(end)) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
    assert max(sum(part.stop - part.start for part in row) for row in rows) <= room
    assert sum(sizes) > 0.9 * room * len(rows)


def test_a_primed_network_looks_where_the_same_token_stood_before() -> None:
    torch.manual_seed(0)
    network = Network(Shape())
    phrase = torch.randint(20, 4096, (30,))
    ids = torch.cat([phrase, phrase])[None]

    def loss() -> float:
        """Of predicting the phrase's second half of the repetition."""
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(network(ids)[0, 40:59], ids[0, 41:60]))

    before = loss()
    copying.prime(network, torch.Generator().manual_seed(0))
    assert loss() < before - 0.1
