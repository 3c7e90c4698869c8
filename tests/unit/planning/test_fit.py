"""What fits and what would: whatever the model and the memory, nothing is promised that the plan does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.commands.fit import show_fit
from localllm.cli.shared.devices import seen_of
from localllm.errors import DeviceUnavailable
from localllm.planning.draft_plan import DraftModel
from localllm.planning.memory_fit import LEAST_CTX, fit_in_memory, fits, largest_ctx, needs
from localllm.planning.needs import need_bytes
from localllm.planning.plan import CTX_STEP
from localllm.planning.tuned import Tuning, Tunings, Values, base_of, place_of
from localllm.registry.listing import store_of
from localllm.registry.making.create import create, resolver
from localllm.registry.making.modelfile import parse_modelfile
from localllm.registry.resolve import carried
from localllm.settings.config import config_file, load
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.unit.planning.test_plan import GPU, MODEL

GIB = 1 << 30
LONG: ModelInfo = msgspec.structs.replace(
    MODEL, context_length=131_072, size_bytes=1200 << 20, feed_forward_length=4096, vocabulary_size=32_000
)


def gpu_with(free_bytes: int) -> DeviceInfo:
    return msgspec.structs.replace(GPU, free_bytes=free_bytes)


def test_the_eviction_and_the_plan_count_the_same_bytes() -> None:
    for options in (LoadOptions(), LoadOptions(ctx=32_768, slots=2, kv_type="q8_0"), LoadOptions(flash_attn="off")):
        assert needs(LONG, options).total == need_bytes(LONG, options)


@given(
    free=st.integers(0, 64 * GIB),
    slots=st.integers(1, 32),
    ctx=st.integers(256, 131_072),
    flash_attn=st.sampled_from(["auto", "on", "off"]),
)
def test_what_is_proposed_fits_and_the_largest_context_is_the_largest(
    free: int, slots: int, ctx: int, flash_attn: str
) -> None:
    options = msgspec.convert({"slots": slots, "ctx": ctx, "flash_attn": flash_attn}, LoadOptions)
    found = fit_in_memory(LONG, options, free_bytes=free)
    assert found.fits == fits(LONG, options, free) == (found.need_bytes <= free)
    assert bool(found.alternatives) <= (not found.fits)
    for one in found.alternatives:
        other = msgspec.structs.replace(options, ctx=one.ctx, slots=one.slots, kv_type=one.kv_type)
        assert fits(LONG, other, free)
        assert one.ctx >= LEAST_CTX or one.ctx == found.ctx
        assert needs(LONG, other).total == one.need_bytes
    largest = found.largest_ctx
    if largest is not None:
        assert fits(LONG, msgspec.structs.replace(options, ctx=largest), free)
    if largest is None or largest < 131_072:
        more = msgspec.structs.replace(options, ctx=(largest or 0) + CTX_STEP)
        assert not fits(LONG, more, free)


def test_a_large_context_that_does_not_fit_would_with_fewer_tokens_slots_or_smaller_numbers() -> None:
    found = fit_in_memory(LONG, LoadOptions(ctx=131_072, slots=4, flash_attn="on"), free_bytes=4 * GIB)
    assert not found.fits
    assert {(one.slots, one.kv_type) for one in found.alternatives} == {
        (4, "f16"), (1, "f16"), (4, "q8_0"), (1, "q8_0"),
    }  # fmt: skip
    assert [one.ctx for one in found.alternatives if one.kv_type == "q8_0"] > [
        one.ctx for one in found.alternatives if one.kv_type == "f16"
    ]


def test_weights_that_do_not_fit_are_helped_by_nothing() -> None:
    found = fit_in_memory(LONG, LoadOptions(), free_bytes=GIB)
    assert (found.fits, found.largest_ctx, found.alternatives) == (False, None, ())


def test_layers_on_a_gpu_leave_the_rest_to_main_memory() -> None:
    found = fit_in_memory(LONG, LoadOptions(slots=1), devices=[gpu_with(1 * GIB)], free_bytes=8 * GIB)
    gpu, cpu = found.shares
    assert (gpu.device, cpu.device) == ("Vulkan0", "CPU")
    assert 0 < gpu.layers < 11
    assert gpu.layers + cpu.layers == 11
    assert found.fits
    assert gpu.fits
    whole = needs(LONG, LoadOptions(slots=1, flash_attn="on"))
    assert gpu.needs.kv + cpu.needs.kv == whole.kv


def test_a_gpu_that_holds_no_layer_is_not_used_or_named_in_an_error() -> None:
    assert len(fit_in_memory(LONG, LoadOptions(), devices=[gpu_with(1)], free_bytes=8 * GIB).shares) == 1
    with pytest.raises(DeviceUnavailable):
        fit_in_memory(LONG, LoadOptions(devices=("Vulkan0",)), devices=[gpu_with(1)], free_bytes=8 * GIB)


def test_memory_that_the_system_does_not_tell_is_enough() -> None:
    assert fit_in_memory(LONG, LoadOptions(ctx=131_072, slots=64), free_bytes=None).fits
    assert largest_ctx(LONG, LoadOptions(), free_bytes=None) == 131_072


def test_the_carried_model_is_told_of_in_words_and_as_json(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    from localllm.cli.commands.fit import show_fit
    from localllm.settings.config import load

    settings = load({"home": home, "device": "cpu", "ctx": 1024, "slots": 2})
    assert show_fit(settings, "demo", as_json=False) == 0
    said = capsys.readouterr().out
    assert "2 slots of 1,024 tokens" in said
    assert "It fits" in said
    assert show_fit(settings, "demo", as_json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["fits"] is True
    assert shown["need_bytes"] == sum(share["needs"]["total"] for share in shown["shares"])
    assert len(shown["weights"]["layers"]) == 4


def test_the_command_plans_with_the_models_own_settings_as_a_load_does(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file(home).write_text('[models.demo]\nctx = 512\nslots = 3\naliases = ["tiny"]\n')
    for name in ("demo", "tiny"):
        assert show_fit(load({"home": home, "device": "cpu"}), name, as_json=False) == 0
        assert "3 slots of 512 tokens" in capsys.readouterr().out
    assert show_fit(load({"home": home, "device": "cpu", "slots": 1}), "demo", as_json=False) == 0
    assert "1 slot of 512 tokens" in capsys.readouterr().out, "the command line overrides a section"


def test_the_command_plans_with_the_context_of_a_manifest(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(home)
    create("mine", parse_modelfile("FROM demo\nPARAMETER num_ctx 256"), store, base_dir=home, resolve=resolver(store))
    assert show_fit(load({"home": home, "device": "cpu"}), "mine", as_json=False) == 0
    assert "slots of 256 tokens" in capsys.readouterr().out


def test_a_draft_takes_its_part_on_the_gpu_or_of_main_memory() -> None:
    draft = DraftModel("small", Path("small.gguf"), msgspec.structs.replace(LONG, size_bytes=200 << 20))
    options = LoadOptions(slots=1, ctx=4096)
    for devices in ([], [gpu_with(4 * GIB)]):
        alone = fit_in_memory(LONG, options, devices=devices, free_bytes=8 * GIB)
        found = fit_in_memory(LONG, options, devices=devices, free_bytes=8 * GIB, draft=draft)
        parts = [share.needs.draft for share in found.shares]
        assert parts[0] >= 200 << 20
        assert not any(parts[1:]), "in one place"
        assert found.need_bytes == alone.need_bytes + parts[0]
    least = fit_in_memory(LONG, options, free_bytes=8 * GIB).need_bytes
    assert fit_in_memory(LONG, options, free_bytes=least).fits
    crowded = fit_in_memory(LONG, options, free_bytes=least, draft=draft)
    assert not crowded.fits
    assert crowded.largest_ctx is None or crowded.largest_ctx < 4096


def test_the_command_counts_a_draft_and_what_was_tuned(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load({"home": home, "gpu_layers": 0, "slots": 1, "ctx": 1024})
    assert show_fit(settings, "demo", as_json=True) == 0
    before = json.loads(capsys.readouterr().out)
    seen = seen_of(settings, whole=True)
    place = place_of(library=seen.fingerprint, backend=seen.backend, devices=seen.devices)
    base = base_of(settings.load_options())
    won = Tuning(model="demo", place=place, base=base, ctx=1024, values=Values(ubatch=2048), gain=1.2)
    Tunings(home).keep(carried("demo.gguf"), won)
    assert show_fit(settings, "demo", as_json=True) == 0
    tuned = capsys.readouterr()
    assert json.loads(tuned.out)["need_bytes"] > before["need_bytes"], "steps of 2,048 tokens take more"
    assert "tuned: ubatch 2048" in tuned.err
    with_draft = load({"home": home, "gpu_layers": 0, "slots": 1, "ctx": 1024, "draft": "auto"})
    assert show_fit(with_draft, "demo", as_json=False) == 0
    shown = capsys.readouterr()
    assert "draft" in shown.out
    assert "tuned with other settings" in shown.err or "tuned: ubatch" in shown.err
