"""What was found to be fastest is kept whole, used where everything is as it was, and else said to be not used."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter
from localllm.planning import tuned
from localllm.planning.tuned import MAX_TUNINGS, WITHOUT_EFFECT, Place, Tuning, Tunings, Values, base_of, match
from localllm.registry import listing
from localllm.tuning.candidates import Machine, candidates
from localllm.types import DeviceInfo, LoadedModel
from localllm.types.load_options import LoadOptions
from tests.stores import put
from tests.worker.conftest import INFO

HERE = Place(cpu="c", cores=4, library="l", backend="zen4")
OPTIONS = LoadOptions(slots=4)
CTX = 8192
WON = Tuning(
    model="demo", place=HERE, base=base_of(OPTIONS), ctx=CTX, values=Values(ubatch=1024), gain=1.25, created_unix_s=0
)
values = st.builds(
    Values,
    threads=st.none() | st.integers(1, 1024),
    threads_batch=st.none() | st.integers(1, 1024),
    ubatch=st.none() | st.integers(32, 8192),
    flash_attn=st.sampled_from([None, "on", "off"]),
    repack=st.sampled_from([None, "on", "off"]),
    speculation=st.sampled_from([None, "auto", "off"]),
    mtp=st.sampled_from([None, "auto", "off"]),
    gpu_layers=st.none() | st.integers(0, 200),
)


def changed(tuning: Tuning = WON, **fields: Any) -> Tuning:
    return msgspec.structs.replace(tuning, **fields)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and more")
    return path


def test_what_was_kept_is_used_by_a_load_of_the_same_settings(tmp_path: Path, model: Path) -> None:
    Tunings(tmp_path).keep(model, WON)
    found = match(Tunings(tmp_path).of(model), HERE, OPTIONS, CTX)
    assert found.applied(OPTIONS) == LoadOptions(slots=4, ubatch=1024)
    assert found.story() == "ubatch 1024: 1.25 x as fast as the default on 1970-01-01"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (msgspec.structs.replace(HERE, backend="vulkan: zen4"), "with zen4, and this is vulkan: zen4"),
        (msgspec.structs.replace(HERE, library="m"), "another build"),
        (msgspec.structs.replace(HERE, cpu="d"), "another CPU"),
        (msgspec.structs.replace(HERE, cores=2), "another CPU"),
        (msgspec.structs.replace(HERE, devices=("Vulkan0: a GPU",)), "other devices"),
        (msgspec.structs.replace(HERE, version="0.0.1"), "localllm"),
    ],
)
def test_another_machine_or_runtime_does_not_use_it_and_says_why(place: Place, words: str) -> None:
    found = match([changed(place=HERE)], place, OPTIONS, CTX)
    assert found.applied(OPTIONS) == OPTIONS
    assert words in found.story()


@pytest.mark.parametrize(
    "field", ["threads", "threads_batch", "ubatch", "flash_attn", "kv_type", "repack", "gpu_layers"]
)
def test_what_somebody_sets_wins_over_the_whole_tuning_which_was_not_measured_with_it(field: str) -> None:
    value = {"flash_attn": "on", "kv_type": "q8_0", "repack": "off"}.get(field, 3 if field != "ubatch" else 64)
    options = msgspec.structs.replace(OPTIONS, **{field: value})
    found = match([WON], HERE, options, CTX)
    assert found.applied(options) == options
    assert found.story() == f"not used: it was tuned with other settings ({field})"


def test_every_option_has_an_effect_on_speed_unless_it_is_known_to_have_none() -> None:
    """So that one which is added later is looked at: it must be as it was, or be listed."""
    names = {field.name for field in msgspec.structs.fields(LoadOptions)}
    assert names >= WITHOUT_EFFECT
    assert names - WITHOUT_EFFECT >= {"threads", "ubatch", "flash_attn", "kv", "kv_type", "devices", "speculation"}


def test_context_slots_and_templates_may_be_others_unless_attention_was_chosen_for_shorter_slots() -> None:
    longer = LoadOptions(slots=1, ctx=4 * CTX, thinking="off", kv_ram_mb=0)
    assert match([WON], HERE, longer, 4 * CTX).tuning == WON
    attention = changed(values=Values(flash_attn="off"))
    assert match([attention], HERE, OPTIONS, CTX // 2).tuning == attention
    assert "8,192 tokens, and these have 32,768" in match([attention], HERE, longer, 4 * CTX).story()


def test_each_library_and_each_set_of_settings_has_a_tuning_of_its_own(tmp_path: Path, model: Path) -> None:
    kept = Tunings(tmp_path)
    other = changed(place=msgspec.structs.replace(HERE, backend="haswell"), values=Values(repack="off"))
    single = changed(base=base_of(LoadOptions(threads=1)), values=Values(flash_attn="off"))
    for tuning in (WON, other, single, changed(values=Values(ubatch=256))):
        kept.keep(model, tuning)
    found = kept.of(model)
    assert len(found) == 3
    assert match(found, HERE, OPTIONS, CTX).applied(OPTIONS).ubatch == 256, "the newest"
    assert match(found, other.place, OPTIONS, CTX).applied(OPTIONS).repack == "off"
    assert match(found, HERE, LoadOptions(threads=1), CTX).applied(OPTIONS).flash_attn == "off"


def test_that_nothing_was_faster_takes_the_place_of_an_earlier_winner(tmp_path: Path, model: Path) -> None:
    kept = Tunings(tmp_path)
    kept.keep(model, WON)
    kept.keep(model, changed(values=Values()))
    found = match(kept.of(model), HERE, OPTIONS, CTX)
    assert found.applied(OPTIONS) == OPTIONS
    assert found.story() == "as by default: nothing was faster on 1970-01-01"


def test_files_stay_small_whatever_is_tuned(tmp_path: Path, model: Path) -> None:
    kept = Tunings(tmp_path)
    for threads in range(1, 40):
        kept.keep(model, changed(base=base_of(LoadOptions(threads=threads))))
    assert len(kept.of(model)) == MAX_TUNINGS
    assert kept.of(model)[-1].base == {"threads": 39}


def test_a_tuning_belongs_to_the_content_of_a_file_wherever_it_lies(tmp_path: Path, model: Path) -> None:
    kept = Tunings(tmp_path)
    kept.keep(model, WON)
    moved = model.rename(tmp_path / "moved.gguf")
    assert kept.of(moved) == (WON,)
    moved.write_bytes(b"GGUF and other")
    assert kept.of(moved) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b'{"tunings": [{}]}', b'{"tunings": 1}', b"\xff\xfe", b'{"more": 1}', b" " * (300 * 1024),
        msgspec.json.encode({"tunings": [changed(values=Values(threads=0))]}),
        msgspec.json.encode({"tunings": [changed(base={"kv_type": "q8_0"}, values=Values(flash_attn="off"))]}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_ignored_and_said_with_what_removes_it(
    content: bytes, tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Tunings(tmp_path)
    kept.keep(model, WON)
    kept.file_of(model).write_bytes(content)
    with caplog.at_level(logging.WARNING, "localllm"):
        assert kept.of(model) == ()
    assert "`localllm tune --forget` removes it" in caplog.text
    (found,) = kept.every()
    assert found.damage
    assert tuned.forget(found) == 1
    caplog.clear()
    assert kept.of(model) == ()
    assert not caplog.text


def test_a_damaged_file_is_written_anew_by_the_next_tuning(tmp_path: Path, model: Path) -> None:
    kept = Tunings(tmp_path)
    kept.keep(model, WON)
    kept.file_of(model).write_bytes(b"{")
    kept.keep(model, WON)
    assert kept.of(model) == (WON,)


@given(values)
def test_values_come_back_as_they_were_kept_and_change_nothing_else(won: Values) -> None:
    again = msgspec.json.decode(msgspec.json.encode(changed(values=won)), type=Tuning)
    assert again.values == won
    applied = won.applied(OPTIONS)
    for field in msgspec.structs.fields(LoadOptions):
        value = getattr(applied, field.name)
        assert value == (won.given().get(field.name, getattr(OPTIONS, field.name)))


def test_memory_is_planned_for_whichever_tuning_may_hold() -> None:
    other = changed(base={"threads": 3}, values=Values(ubatch=4096))
    assert [each.ubatch_tokens for each in tuned.possible([WON, other], OPTIONS)] == [512, 1024]


def test_a_value_that_no_load_can_have_is_an_error_of_its_name() -> None:
    with pytest.raises(InvalidParameter, match="ubatch"):
        Values(ubatch=1).applied(OPTIONS)


def loaded(**fields: Any) -> LoadedModel:
    defaults = {"threads": 8, "threads_batch": 8, "layers_per_device": {"CPU": 10}, "speculation": "auto"}
    return LoadedModel(
        id="m", path="m", info=INFO, ctx=CTX, slots=4, backend="zen4", load_s=0.0, created_unix_s=0,
        **{**defaults, **fields},
    )  # fmt: skip


CPU = Machine(usable_cpus=16, uses_gpus=False, repacks=True)


def words(options: LoadOptions = OPTIONS, machine: Machine = CPU, *, deepest: int = 4096, **fields: Any) -> list[str]:
    return [each.words for each in candidates(options, loaded(**fields), machine, deepest=deepest)]


def test_candidates_change_one_setting_each_and_threads_of_answers_leave_those_of_prompts_alone() -> None:
    assert words() == [
        "flash_attn off", "ubatch 1024", "ubatch 256", "ubatch 2048", "threads_batch 16", "threads_batch 4",
        "threads 16, threads_batch 8", "threads 4, threads_batch 8", "repack off", "speculation off",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given_option", "name"),
    [
        ({"flash_attn": "on"}, "flash_attn"),
        ({"kv_type": "q8_0"}, "flash_attn"),
        ({"ubatch": 512}, "ubatch"),
        ({"threads": 8}, "threads "),
        ({"threads_batch": 8}, "threads_batch 1"),
        ({"repack": "on"}, "repack"),
        ({"speculation": "off"}, "speculation"),
        ({"draft": "demo-draft"}, "speculation"),
    ],
)
def test_nothing_is_tried_that_somebody_has_set(given_option: dict[str, Any], name: str) -> None:
    options = msgspec.structs.replace(OPTIONS, **given_option)
    assert any(each.startswith(name) for each in words())
    assert not any(each.startswith(name) for each in words(options))


def test_a_models_own_heads_may_cost_more_than_their_guesses_bring() -> None:
    assert words(sources=("lookup", "mtp"))[-2:] == ["speculation off", "mtp off"]
    assert "mtp off" not in words()
    assert "mtp off" not in words(msgspec.structs.replace(OPTIONS, mtp="off"), sources=("lookup",))


def test_batches_longer_than_any_prompt_that_is_measured_are_not_tried() -> None:
    assert [each for each in words(deepest=256) if each.startswith("ubatch")] == ["ubatch 256"]


def test_layers_are_tried_on_gpus_and_threads_only_where_the_cpu_computes() -> None:
    gpu = Machine(usable_cpus=16, uses_gpus=True, repacks=True)
    assert words(machine=gpu, layers_per_device={"CUDA0": 33}, speculation="off") == [
        "gpu_layers 0", "flash_attn off", "ubatch 1024", "ubatch 256", "ubatch 2048",
    ]  # fmt: skip
    assert words(machine=gpu, layers_per_device={"CUDA0": 20, "CPU": 13})[:2] == ["gpu_layers 0", "gpu_layers 10"]
    assert not any(each.startswith("gpu") for each in words())


def test_another_type_of_kv_cache_is_a_candidate_only_where_it_is_asked_for() -> None:
    assert "kv_type q8_0" not in words()
    asked = candidates(OPTIONS, loaded(), CPU, deepest=512, kv=True)
    assert [each.applied(OPTIONS).kv_type for each in asked if each.kv_type] == ["q8_0"]


def test_a_place_tells_gpus_apart_and_leaves_out_how_much_of_them_is_free() -> None:
    devices = [DeviceInfo("CPU", "a CPU", "cpu", "CPU", 1, 2), DeviceInfo("Vulkan0", "a GPU", "gpu", "Vulkan", 3, 4)]
    assert tuned.place_of(library="l", backend="b", devices=devices).devices == ("Vulkan0: a GPU",)


def test_a_tuning_goes_with_the_last_name_of_its_model(tmp_path: Path) -> None:
    store = listing.store_of(tmp_path)
    for name in ("mine", "other"):
        manifest = put(store, name, b"the same model")
        Tunings(tmp_path).keep(store.locate(manifest, manifest.files[0]), WON)
    listing.copy("mine", "yours", tmp_path)
    put(store, "another", b"a different model")
    for name in ("mine", "another", "other"):
        listing.remove(name, tmp_path)
        assert len(list(Tunings(tmp_path).every())) == 1, "it has another name still, or was never tuned"
    listing.remove("yours", tmp_path)
    assert list(Tunings(tmp_path).every()) == []


def test_a_tuning_stays_where_a_damaged_manifest_may_be_of_its_model(tmp_path: Path) -> None:
    store = listing.store_of(tmp_path)
    manifest = put(store, "mine", b"model")
    Tunings(tmp_path).keep(store.locate(manifest, manifest.files[0]), WON)
    listing.copy("mine", "yours", tmp_path)
    (damaged,) = [path for path in store.root.rglob("*.json") if path.stem.startswith("yours")]
    damaged.write_text("{")
    listing.remove("mine", tmp_path)
    assert len(list(Tunings(tmp_path).every())) == 1
