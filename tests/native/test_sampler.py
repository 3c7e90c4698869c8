"""The compiled sampler does what the NumPy one does, token for token; and both draw what the distribution says."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.engine import native
from localllm.engine.native import NativeSampler, NotCompiled
from localllm.engine.sampler import Row, SamplerParams, power_of_2, sample, uniform

SOURCE = Path(__file__).parents[2] / "native" / "sampler" / "sampler.cpp"


def openmp() -> int | None:
    """The address of GOMP_parallel in this system's OpenMP runtime."""
    name = ctypes.util.find_library("gomp")
    return None if name is None else ctypes.cast(ctypes.CDLL(name).GOMP_parallel, ctypes.c_void_p).value


@pytest.fixture(scope="module")
def source_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This source, whatever is installed; with the flags of native/CMakeLists.txt."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("native") / "sampler.so"
    flags = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", library, SOURCE, "-pthread"], check=True)
    return library


@pytest.fixture(scope="module", params=["its own threads", "OpenMP's"])
def compiled(source_library: Path, request: pytest.FixtureRequest) -> NativeSampler:
    team = openmp() if request.param == "OpenMP's" else None
    if team is None and request.param == "OpenMP's":
        pytest.skip("no OpenMP runtime")
    return NativeSampler(source_library, threads=2, team=team)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Logits: smooth or with many equal ones, flat or steep, some forbidden, tiny vocabularies too."""
    size = draw(st.sampled_from([1, 2, 7, 33, 257, 4096, 20_000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    row = rng.normal(0, draw(st.sampled_from([0.1, 1.0, 3.0, 20.0])), size).astype(np.float32)
    if draw(st.booleans()):
        row = np.round(row)
    if draw(st.booleans()):
        row[rng.random(size) < 0.4] = -np.inf
    return row


@st.composite
def params(draw: st.DrawFn, size: int) -> SamplerParams:
    tokens = st.integers(0, size - 1)
    mask = None
    if draw(st.booleans()):
        bits = np.random.default_rng(draw(st.integers(0, 1000))).random(-(-size // 32) * 32) < draw(st.floats(0, 1))
        mask = np.packbits(bits, bitorder="little").view(np.uint32)
    return SamplerParams(
        temperature=draw(st.sampled_from([0.0, 0.01, 0.7, 1.0, 3.0])),
        top_k=draw(st.sampled_from([0, 0, 1, 2, 40, 5000])),
        top_p=draw(st.sampled_from([1.0, 0.95, 0.5, 0.001, 0.0])),
        min_p=draw(st.sampled_from([0.0, 0.05, 0.9, 1.0])),
        top_n_sigma=draw(st.sampled_from([0.0, 0.0, 1.0, 2.5])),
        typical_p=draw(st.sampled_from([1.0, 1.0, 0.9, 0.2, 0.0])),
        xtc_probability=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        xtc_threshold=draw(st.sampled_from([0.0, 0.1, 0.4, 0.6])),
        dynatemp_range=draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
        dynatemp_exponent=draw(st.sampled_from([0.5, 1.0, 3.0])),
        mirostat=draw(st.sampled_from([0, 0, 1, 2])),
        mirostat_tau=draw(st.sampled_from([0.0, 2.0, 5.0])),
        mirostat_eta=draw(st.sampled_from([0.1, 1.0])),
        mirostat_mu=draw(st.floats(-20, 30, width=32)),
        lessened=draw(st.dictionaries(tokens, st.sampled_from([0.8, 2.5, 1e30]), max_size=3)),
        repeat_penalty=draw(st.sampled_from([1.0, 1.1, 2.0])),
        repeated=draw(st.lists(tokens, max_size=5, unique=True)),
        presence_penalty=draw(st.sampled_from([0.0, 0.5, -1.0])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.3])),
        counts=draw(st.dictionaries(tokens, st.integers(1, 9), max_size=5)),
        bias=draw(st.dictionaries(tokens, st.sampled_from([-100.0, -1.0, 5.0, -math.inf]), max_size=5)),
        mask=mask,
        seed=draw(st.integers(0, 2**64 - 1)),
        draw=draw(st.integers(0, 2**20)),
        num_top=draw(st.integers(-1, 20)),
    )


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_compiled_sampler_equals_the_numpy_one(compiled: NativeSampler, data: st.DataObject) -> None:
    first = data.draw(rows())
    batch = [first, np.flip(first).copy(), first + np.float32(1)]
    wanted = [data.draw(params(len(first))) for _ in batch]
    before = [row.copy() for row in batch]
    for row, kept, each, drawn in zip(batch, before, wanted, compiled.sample(batch, wanted), strict=True):
        expected = sample(row, each)
        assert drawn.token == expected.token
        assert drawn.mirostat_mu == expected.mirostat_mu
        if expected.token >= 0 and each.num_top >= 0:
            assert drawn.logprob == pytest.approx(expected.logprob, abs=1e-5)
            assert [token for token, _ in drawn.top] == [token for token, _ in expected.top]
            assert [p for _, p in drawn.top] == pytest.approx([p for _, p in expected.top], abs=1e-5)
        np.testing.assert_array_equal(row, kept)


def test_a_share_is_compared_in_double(compiled: NativeSampler) -> None:
    """Ten equal tokens, each a tenth: float32's 0.1 is a little more, so that none of them reaches XTC's threshold."""
    row = np.zeros(10, np.float32)
    each = [SamplerParams(xtc_probability=1, xtc_threshold=0.1, seed=seed) for seed in range(20)]
    drawn = [result.token for result in compiled.sample([row] * 20, each)]
    assert drawn == [sample(row, params).token for params in each]
    assert len(set(drawn)) > 1


@settings(max_examples=200)
@given(row=rows(), temperature=st.sampled_from([0.5, 1.0, 2.0]), top_p=st.sampled_from([0.3, 0.9]))
def test_what_is_kept_is_the_smallest_set_that_reaches_the_share(row: Row, temperature: float, top_p: float) -> None:
    if row.max() == -np.inf:
        return
    order = np.argsort(-row, kind="stable")
    probabilities = np.exp((row[order] - row.max()).astype(np.float64))
    sums = np.cumsum(probabilities / probabilities.sum())
    smallest = int(np.searchsorted(sums, top_p - 1e-6)) + 1
    some = {sample(row, SamplerParams(temperature=temperature, top_p=top_p, seed=seed)).token for seed in range(30)}
    assert some <= set(order[: smallest + 1].tolist())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_distribution(compiled: NativeSampler, temperature: float) -> None:
    """Chi-square over 20 tokens, 50,000 draws: a right sampler fails this once in 10,000 seeds, and these are fixed."""
    row = np.random.default_rng(3).normal(0, 1, 20).astype(np.float32)
    weights = np.exp(row.astype(np.float64) / temperature)
    num_draws, batch = 50_000, 500
    counts = np.zeros(20)
    for start in range(0, num_draws, batch):
        drawn = compiled.sample(
            [row] * batch,
            [SamplerParams(temperature=temperature, seed=11, draw=start + i) for i in range(batch)],
        )
        np.add.at(counts, [each.token for each in drawn], 1)
    expected = weights / weights.sum() * num_draws
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 49.6, "the 0.9999 quantile of chi-square with 19 degrees of freedom"


def test_the_seed_and_the_number_of_the_draw_decide_alone(compiled: NativeSampler) -> None:
    row = np.random.default_rng(0).normal(0, 1, 4096).astype(np.float32)
    one = SamplerParams(seed=5, draw=7)
    (alone,) = compiled.sample([row], [one])
    among = compiled.sample([row] * 9, [SamplerParams(seed=i) for i in range(8)] + [one])
    assert among[-1] == alone
    assert len({compiled.sample([row], [SamplerParams(seed=5, draw=i)])[0].token for i in range(20)}) > 10


def test_a_power_is_within_two_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-126, 0, 200_001), [-0.0, -1e-30, -200, -np.inf]]).astype(np.float32)
    exact = np.exp2(x.astype(np.float64))
    error = np.abs(power_of_2(x) - exact) / np.maximum(exact, 1e-37)
    assert error[x >= -125.9].max() < 2 * 2**-23


def test_uniform_numbers_lie_between_0_and_1_and_spread() -> None:
    numbers = np.array([uniform(seed, draw) for seed in range(50) for draw in range(50)])
    assert 0 <= numbers.min() < 0.01
    assert 0.99 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.02


def test_everything_forbidden_is_reported_and_not_guessed(compiled: NativeSampler) -> None:
    row = np.full(100, -np.inf, np.float32)
    for each in (SamplerParams(), SamplerParams(temperature=0), SamplerParams(top_k=5, num_top=3)):
        assert sample(row, each).token == compiled.sample([row], [each])[0].token == -1


def test_this_installation_carries_the_compiled_sampler() -> None:
    row = np.array([0, 3, 1], np.float32)
    assert native.load().sample([row], [SamplerParams(temperature=0)])[0].token == 1


def test_a_library_of_another_version_is_named_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(native, "PACKAGE", "elsewhere")
    with pytest.raises(NotCompiled, match="no C\\+\\+ compiler"):
        native.load()
    (tmp_path / "elsewhere" / "sampler.so").write_bytes(b"not a library")
    with pytest.raises(NotCompiled, match=r"sampler\.so"):
        native.load()
