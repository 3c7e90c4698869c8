"""Experts: what is left of devices' memory is theirs, after all other parts of every layer."""

from __future__ import annotations

import re

import pytest

from localllm.errors import InvalidParameter
from localllm.planning.memory_fit import fit_in_memory
from localllm.planning.placing import DRIVER_BYTES, sizes_of
from localllm.planning.plan import plan
from localllm.types.placement import Placement
from tests.unit.planning.test_placing import MIXTURE, gpu, options
from tests.unit.planning.test_plan import CPU, MB


def placed(*rooms: int, **wanted: object) -> Placement:
    return plan(
        MIXTURE, options(ctx=512, **wanted), [CPU, *(gpu(f"Vulkan{i}", room * MB) for i, room in enumerate(rooms))]
    )


def moved_by(placement: Placement) -> set[int]:
    """The blocks whose experts llama.cpp is told to leave on the CPU."""
    patterns = [pattern for pattern, device in placement.overrides if device == "CPU"]
    return {
        int(name.split(".")[1])
        for name in MIXTURE.tensors
        if name.endswith("exps.weight")
        for each in patterns
        if re.search(each, name)
    }


def test_all_attention_comes_first_then_experts_from_the_last_layer() -> None:
    whole = placed(4000)
    assert (whole.gpu_layers, whole.cpu_experts, whole.overrides) == (11, (), ())
    need = next(share for share in whole.shares if share.device == "Vulkan0").total // MB + DRIVER_BYTES // MB + 1
    for missing in (1, 120, 500):
        some = placed(need - missing)
        assert some.gpu_layers == 11
        assert moved_by(some) == set(some.cpu_experts) == set(range(len(some.cpu_experts)))
        assert 1 <= len(some.cpu_experts) - missing // 60 <= 2, "one more: a device copies experts for long prompts"
        assert some.device_experts == 10 - len(some.cpu_experts)
    less = placed(need - 800)
    assert 0 < less.gpu_layers < 11
    assert moved_by(less) == set(range(11 - less.gpu_layers, 10)), "attention first"


def test_two_devices_are_filled_each() -> None:
    one, two = placed(1100, 4000), placed(4000, 1100)
    for both in (one, two):
        assert both.gpu_layers == 11
        assert sum(map(bool, [share.layers for share in both.shares if share.device != "CPU"])) == 2


@pytest.mark.parametrize(("asked", "stay"), [("all", 10), (0, 0), (3, 3), (99, 10)])
def test_what_is_asked_for_is_done(asked: int | str, stay: int) -> None:
    assert placed(8000, gpu_layers="all", n_cpu_moe=asked).cpu_experts == tuple(range(stay))
    assert placed(8000, n_cpu_moe=asked).cpu_experts == tuple(range(stay))
    if stay:
        with pytest.raises(InvalidParameter, match="no effect with split row"):
            options(n_cpu_moe=asked, split="row")


def test_the_expert_cache_is_taken_before_experts_are_placed_and_holds_no_more_than_them() -> None:
    def on_gpu(placement: Placement) -> int:
        return placement.shares[0].weights

    without, with_cache = placed(1100), placed(1100, moe_cache_mb=200)
    assert without.gpu_layers == with_cache.gpu_layers == 11
    moved = len(with_cache.cpu_experts) - len(without.cpu_experts)
    assert moved == 3, "200 MB are the experts of 3.2 layers"
    assert on_gpu(with_cache) == on_gpu(without) - moved * 60 * MB + 200 * 10**6
    kept = [placed(8000, n_cpu_moe=3, moe_cache_mb=megabytes) for megabytes in (0, 5000)]
    assert on_gpu(kept[1]) - on_gpu(kept[0]) == 3 * 60 * MB
    assert on_gpu(placed(8000, moe_cache_mb=5000)) == on_gpu(placed(8000)), "nothing is away"
    both = placed(8000, 8000, n_cpu_moe="all", moe_cache_mb=220)
    alone = placed(8000, 8000, n_cpu_moe="all")
    held = [share.weights - plain.weights for share, plain in zip(both.shares, alone.shares, strict=True)]
    assert held == [120 * 10**6, 100 * 10**6, 0], "by their layers, the output head among them"


def test_the_next_plan_after_too_little_memory_has_fewer_parts_on_the_device() -> None:
    first = placed(1300)
    had = first.gpu_layers + first.device_experts
    assert first.gpu_layers == 11
    for most in range(had - 1, 0, -1):
        then = plan(MIXTURE, options(ctx=512), [CPU, gpu("Vulkan0", 1300 * MB)], most)
        assert then.gpu_layers + then.device_experts == most


def test_fit_says_what_more_memory_would_hold() -> None:
    found = fit_in_memory(MIXTURE, options(ctx=512), devices=[CPU, gpu("Vulkan0", 1000 * MB)], free_bytes=None)
    assert found.cpu_experts > 0
    assert found.per_gb == pytest.approx(1e9 / (60 * MB))
    whole = fit_in_memory(MIXTURE, options(ctx=512), devices=[CPU, gpu("Vulkan0", 8000 * MB)], free_bytes=None)
    assert (whole.cpu_experts, whole.per_gb) == (0, None)


def test_experts_that_were_sent_elsewhere_are_not_counted_again() -> None:
    asked = options(ctx=512, override_tensor=[("blk.[0-4]..*exps", "cpu")])
    sizes = sizes_of(MIXTURE, dict(asked.override_tensor))
    assert sizes.experts == (0,) * 5 + (60 * MB,) * 5
    placement = plan(MIXTURE, asked, [CPU, gpu("Vulkan0", 1000 * MB)])
    assert set(placement.cpu_experts) <= set(range(5, 10))
    assert placement.overrides[0][0] == "blk.[0-4]..*exps", "the first match counts"
