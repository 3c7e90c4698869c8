"""The tensor types of another quantization follow from one header and the file size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Type

from benchmarks.prediction_models import mixed
from localllm.gguf import read_model_info
from localllm.registry.sources.retyping import retyped
from localllm.types import ModelInfo
from localllm.types.headers.products import Products
from tests.models.hollow import SHAPES, Shape, write_hollow

SHAPE = SHAPES["TinyLlama"]._replace(layers=22)
NARROW = Shape("llama", 960, 2560, 15, 5, 64, 49_152, layers=8, tied=True)


def bytes_by_type(products: Products) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in products.matrices:
        found[each.type] += int(each.count * each.bytes * (each.experts or 1))
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelInfo:
    return read_model_info(
        write_hollow(tmp_path_factory.mktemp("a") / "a.gguf", SHAPE, mixed(Type.Q2_K, Type.Q3_K, SHAPE))
    )


@pytest.mark.parametrize(
    ("quant", "base", "better"),
    [("Q4_K_M", Type.Q4_K, Type.Q6_K), ("Q5_K_M", Type.Q5_K, Type.Q6_K), ("UD-Q4_K_XL", Type.Q4_K, Type.Q6_K)],
)
def test_a_mixture_is_told_by_its_size(source: ModelInfo, tmp_path: Path, quant: str, base: Type, better: Type) -> None:
    info = read_model_info(write_hollow(tmp_path / "b.gguf", SHAPE, mixed(base, better, SHAPE)))
    guessed = retyped(source.products, quant, from_bytes=source.size_bytes, to_bytes=info.size_bytes)
    real, found = bytes_by_type(info.products), bytes_by_type(guessed)
    assert set(found) == set(real)
    for name, size_bytes in real.items():
        assert found[name] == pytest.approx(size_bytes, rel=0.1)


@pytest.mark.parametrize(("quant", "kind"), [("Q8_0", Type.Q8_0), ("BF16", Type.BF16), ("F16", Type.F16)])
def test_a_quantization_of_one_type_is_that_type(source: ModelInfo, tmp_path: Path, quant: str, kind: Type) -> None:
    info = read_model_info(write_hollow(tmp_path / "b.gguf", SHAPE, kind))
    guessed = retyped(source.products, quant, from_bytes=source.size_bytes, to_bytes=info.size_bytes)
    assert bytes_by_type(guessed) == bytes_by_type(info.products)


def test_rows_that_are_no_multiple_of_256_get_what_llama_cpp_takes_for_them(tmp_path: Path) -> None:
    info = read_model_info(write_hollow(tmp_path / "b.gguf", NARROW, Type.Q8_0))
    guessed = retyped(info.products, "Q4_K_M", from_bytes=info.size_bytes, to_bytes=info.size_bytes * 5 // 8)
    narrow = {each.type for each in guessed.matrices if each.inputs % 256}
    assert narrow <= {"Q5_0", "Q8_0"}
    assert {"Q4_K"} <= {each.type for each in guessed.matrices if each.inputs % 256 == 0}


def test_an_unknown_recipe_is_no_guess(source: ModelInfo) -> None:
    for quant in (None, "IQ9_Z"):
        assert retyped(source.products, quant, from_bytes=source.size_bytes, to_bytes=10**9) == Products()
