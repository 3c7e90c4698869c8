"""Memory of devices is counted once: what other programs hold, what ours have, what a load is going to take."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import LoadFailed
from localllm.planning.draft_plan import DraftModel
from localllm.planning.placing import DRIVER_BYTES
from localllm.supervisor.eviction import Evict, Load, MemoryHolder, WaitFor, decide_devices
from localllm.supervisor.ledger import Ledger
from localllm.supervisor.on_devices import OnDevices, layers_on_gpus
from localllm.types import DeviceInfo, LayerMemory
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare
from tests.unit.planning.test_placing import NAMED
from tests.unit.planning.test_plan import CPU, MB

TOTAL = 8000 * MB
SHORT = LoadFailed("no room", out_of_memory_on="Vulkan0")


def gpu(free_mb: int = 8000) -> DeviceInfo:
    return DeviceInfo("Vulkan0", "a GPU", "gpu", "Vulkan", free_mb * MB, TOTAL)


def free_mb(ledger: Ledger, reported: DeviceInfo, without: tuple[str, ...] = ()) -> float:
    return ledger.free([reported], without)[0].free_bytes / MB


def hold(ledger: Ledger, id: str, mb: int) -> None:
    """So much, with its driver's part."""
    ledger.hold(id, [DeviceShare("Vulkan0", 1, mb * MB - DRIVER_BYTES, 0, 0), DeviceShare("CPU", 0, 5, 0, 0)], [gpu()])


def on_devices(ledger: Ledger, id: str, **options: object) -> OnDevices:
    return OnDevices(ledger, "lib", id, NAMED, msgspec.convert({"slots": 1, **options}, LoadOptions))


def test_what_a_model_frees_is_free_for_others_but_the_drivers_part() -> None:
    ledger, draft = Ledger(), DeviceShare("Vulkan0", 3, 300 * MB, 150 * MB, 50 * MB)
    ledger.see("lib", [gpu()], "a")
    ledger.hold("a", [DeviceShare("Vulkan0", 9, 2000 * MB - DRIVER_BYTES, 0, 0), draft], [gpu()])
    before = free_mb(ledger, gpu())
    ledger.freed("a", [draft], [gpu()])
    assert free_mb(ledger, gpu()) == before + 500
    ledger.freed("gone", [draft], [gpu()])
    assert free_mb(ledger, gpu()) == before + 500


@pytest.mark.parametrize("tells", [True, False])
def test_two_loads_do_not_plan_from_the_same_free_bytes(tells: bool) -> None:
    """Whether the driver says what is free now, or always that all is."""
    ledger = Ledger()
    ledger.see("lib", [gpu()], "a")
    hold(ledger, "a", 3000)
    assert free_mb(ledger, gpu()) == 5000, "though nothing is allocated yet"
    half_done = gpu(6500 if tells else 8000)
    ledger.see("lib", [half_done], "b")
    assert free_mb(ledger, half_done) == 5000
    ledger.allocated("a")
    done = gpu(5000 if tells else 8000)
    ledger.see("lib", [done], "b")
    assert free_mb(ledger, done) == 5000
    ledger.release("a")
    assert [device.free_bytes for device in ledger.known("lib")] == [TOTAL]


def test_what_other_programs_hold_is_not_ours_to_give() -> None:
    ledger = Ledger()
    ledger.see("lib", [gpu(6000)], "a")
    hold(ledger, "a", 1000)
    assert free_mb(ledger, gpu(6000)) == 5000
    assert free_mb(ledger, gpu(6000), ("a",)) == 6000
    ledger.allocated("a")
    ledger.see("lib", [gpu(2000)], "b")
    assert free_mb(ledger, gpu(2000)) == 2000, "somebody else has taken more since"
    ledger.release("a")
    assert ledger.known("lib")[0].free_bytes == 3000 * MB


@given(st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=5), st.integers(0, 3000))
def test_free_bytes_are_never_more_than_what_nobody_holds(models: list[tuple[int, bool]], others: int) -> None:
    ledger, allocated = Ledger(), 0
    for index, (size, is_done) in enumerate(models):
        reported = gpu(max(0, 8000 - others - allocated))
        ledger.see("lib", [reported], str(index))
        planned = sum(mb for mb, _ in models[:index])
        assert free_mb(ledger, reported) <= max(0, 8000 - others - planned) + 1e-6
        ledger.hold(str(index), [DeviceShare("Vulkan0", 1, size * MB, 0, 0)], [gpu()])
        if is_done:
            ledger.allocated(str(index))
            allocated += size


def test_a_second_model_gets_what_the_first_leaves_and_says_who_has_the_rest() -> None:
    ledger = Ledger()
    first = on_devices(ledger, "first").place([CPU, gpu(1900)])
    assert (layers_on_gpus(first), first.note) == (11, "")
    second = on_devices(ledger, "second")
    placement = second.place([CPU, gpu(1900)])
    assert layers_on_gpus(placement) < 11
    assert "of 11 layers on GPUs, because first (" in placement.note
    assert second.device_bytes().get("Vulkan0", 0) <= 1900 * MB


def test_an_idle_model_goes_for_one_that_gets_more_layers_by_it_and_a_busy_or_staying_one_does_not() -> None:
    ledger = Ledger()
    on_devices(ledger, "old").place([CPU, gpu(1900)])
    ledger.allocated("old")
    new = on_devices(ledger, "new")
    assert decide_devices(new.layers_without, [MemoryHolder("old", 1, False, False, 0.0)]) == Evict("old")
    assert decide_devices(new.layers_without, [MemoryHolder("old", 1, True, False, 0.0)]) == Load()
    assert decide_devices(new.layers_without, [MemoryHolder("old", 1, False, True, 0.0)]) == Load()
    assert (
        decide_devices(
            on_devices(ledger, "x", devices=["cpu"]).layers_without, [MemoryHolder("old", 1, False, False, 0)]
        )
        == Load()
    )
    insists = on_devices(ledger, "insists", gpu_layers="all")
    assert decide_devices(insists.layers_without, [MemoryHolder("old", 1, False, False, 0.0)]) == Evict("old")


def test_of_several_idle_models_the_least_recently_used_that_is_enough_goes() -> None:
    layers = {frozenset[str](): 3, frozenset("a"): 3, frozenset("b"): 9, frozenset("ab"): 11}
    held = [MemoryHolder("b", 1, False, False, 5.0), MemoryHolder("a", 1, False, False, 1.0)]
    assert decide_devices(lambda gone: layers[frozenset(gone)], held) == Evict("b")
    both = {frozenset[str](): 3, frozenset("a"): 3, frozenset("b"): 3, frozenset("ab"): 11}
    assert decide_devices(lambda gone: both[frozenset(gone)], held) == Evict("a"), "it takes both"
    leaving = MemoryHolder("b", 1, True, False, 5.0, is_leaving=True)
    assert decide_devices(lambda gone: layers[frozenset(gone)], [leaving, held[1]]) == WaitFor(("b",))
    assert decide_devices(lambda gone: both[frozenset(gone)], [leaving, held[1]]) == Evict("a"), "b goes anyway"
    none = dict.fromkeys(both, 3)
    assert decide_devices(lambda gone: none[frozenset(gone)], held) == Load()


@given(st.data())
def test_models_go_until_more_would_gain_no_layers_and_never_a_busy_or_leaving_one(
    data: st.DataObject,
) -> None:
    """Where it took a model that is leaving and an idle one, the idle one stayed, and the new one got fewer layers."""
    held = {
        id: MemoryHolder(
            id, 1, data.draw(st.booleans()), data.draw(st.booleans()), number, is_leaving=data.draw(st.booleans())
        )
        for number, id in enumerate("abcd"[: data.draw(st.integers(0, 4))])
    }
    sizes = {id: data.draw(st.integers(0, 4), id) for id in held}
    step = data.draw(st.integers(1, 6), "memory per layer")

    def layers(gone: Collection[str]) -> int:
        return sum(sizes[id] for id in gone) // step

    gone = set[str]()
    while True:
        decision = decide_devices(lambda more: layers(gone.union(more)), [held[id] for id in held if id not in gone])
        if isinstance(decision, Load):
            break
        for id in decision.ids if isinstance(decision, WaitFor) else [decision.id]:
            assert id not in gone
            assert held[id].is_leaving == isinstance(decision, WaitFor)
            assert held[id].is_leaving or not (held[id].is_busy or held[id].stays)
            gone.add(id)
    free = {id for id, one in held.items() if one.is_leaving or not (one.is_busy or one.stays)}
    assert layers(free) == layers(gone), "more layers were to be had"


def test_a_shortage_means_fewer_layers_once_and_is_said() -> None:
    ledger = Ledger()
    model = on_devices(ledger, "a")
    session, later = object(), object()
    assert layers_on_gpus(model.place([CPU, gpu()])) == 11
    assert model.takes_fewer(SHORT, session)
    assert model.takes_fewer(SHORT, session), "a second caller who waited for the same start"
    placement = model.place([CPU, gpu()])
    assert layers_on_gpus(placement) == 8
    assert placement.note == "out of memory on Vulkan0 with 11 of 11 layers: 8 of 11 layers there instead"
    assert not model.takes_fewer(SHORT, later), "once"


def test_a_number_of_layers_that_was_asked_for_is_never_reduced_nor_another_error_taken_for_a_shortage() -> None:
    for options in ({"gpu_layers": "all"}, {"gpu_layers": 5}):
        model = on_devices(Ledger(), "a", **options)
        model.place([CPU, gpu()])
        assert not model.takes_fewer(SHORT, object())
    model = on_devices(Ledger(), "a")
    model.place([CPU, gpu()])
    assert not model.takes_fewer(LoadFailed("the file is damaged"), object())


def test_main_memory_is_counted_without_what_devices_hold() -> None:
    ledger = Ledger()
    model = on_devices(ledger, "a")
    assert model.main_bytes(2000 * MB) == 2000 * MB, "nothing is known of devices yet"
    placement = model.place([CPU, gpu()])
    there = placement.shares[0]
    assert model.main_bytes(2000 * MB) == max(0, 2000 * MB - there.weights - there.kv)
    assert on_devices(ledger, "b").main_bytes(2000 * MB) < 2000 * MB, "known from the first worker"


def test_a_draft_on_a_gpu_counts_for_the_model_beside_it_for_others_and_until_it_is_gone() -> None:
    ledger = Ledger()
    draft = DraftModel("small", Path("small.gguf"), msgspec.structs.replace(NAMED, size_bytes=900 * MB))
    alone = on_devices(ledger, "alone").place([CPU, gpu(1900)])
    ledger.release("alone")
    first = OnDevices(ledger, "lib", "first", NAMED, LoadOptions(slots=1), draft)
    assert layers_on_gpus(first.place([CPU, gpu(1900)])) < layers_on_gpus(alone), "the draft has its part"
    assert first.draft is not None
    assert first.draft.share is not None
    held = ledger.holders()["first"]
    assert held >= sum(first.device_bytes().values()) >= 900 * MB + first.draft.share.kv
    assert first.main_bytes(10_000 * MB) <= 9_100 * MB, "what is there is not in main memory"
    ledger.see("lib", [gpu(1900)], "second")
    assert free_mb(ledger, gpu(1900)) == pytest.approx(1900 - held / MB)
    ledger.release("first")
    ledger.see("lib", [gpu(1900)], "second")
    assert free_mb(ledger, gpu(1900)) == 1900


@pytest.mark.parametrize("free", [1900, 900])
def test_nextn_layers_that_do_not_guess_after_all_count_no_more_than_if_they_were_off(free: int) -> None:
    """Whether all layers are on the GPU or only some."""
    ledger = Ledger()
    headed = msgspec.structs.replace(NAMED, heads=LayerMemory(keys=512, values=512))
    model = OnDevices(ledger, "lib", "m", headed, LoadOptions(slots=1))
    placed = model.place([CPU, gpu(free)])
    off = OnDevices(ledger, "lib", "off", headed, LoadOptions(slots=1, mtp="off", gpu_layers=placed.gpu_layers))
    ledger.allocated("m")
    planned = ledger.holders()["m"]
    model.free_heads()
    off.place([CPU, gpu(free)])
    assert 0 < placed.gpu_layers < headed.num_layers + 1 or free == 1900
    assert ledger.holders()["m"] == ledger.holders()["off"] < planned
    assert model.device_bytes() == off.device_bytes()
    model.free_heads()
    assert ledger.holders()["m"] == ledger.holders()["off"], "they go once"
