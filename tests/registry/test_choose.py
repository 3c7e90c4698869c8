"""The choice of files and quantization, by tables of real repositories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.sources.choose import (
    Candidate,
    ListedFile,
    candidates,
    choose,
    choose_file,
    needed_bytes,
    projector,
)
from localllm.registry.sources.quants import bits, quant_of, shard_name, split_shard

GB = 10**9
REPO = "someone/some-model-GGUF"


def listed(**sizes_gb: float) -> list[ListedFile]:
    """`Q4_K_M=4.9` is `model-Q4_K_M.gguf` of 4.9 GB."""
    return [ListedFile(f"model-{quant.replace('UD_', 'UD-')}.gguf", int(size * GB)) for quant, size in sizes_gb.items()]


def files(*paths: str, size: int = GB) -> list[ListedFile]:
    return [ListedFile(path, size) for path in paths]


@pytest.mark.parametrize(
    ("path", "quant"),
    [
        ("Qwen3-0.6B-Q8_0.gguf", "Q8_0"),
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("qwen2.5-7b-instruct-q4_k_m-00001-of-00002.gguf", "Q4_K_M"),
        ("qwen2.5-0.5b-instruct-fp16.gguf", "F16"),
        ("tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf", "Q4_K_M"),
        ("UD-Q4_K_XL/DeepSeek-R1-UD-Q4_K_XL-00001-of-00008.gguf", "UD-Q4_K_XL"),
        ("Q4_K_M/model-00001-of-00002.gguf", "Q4_K_M"),
        ("Qwen3-30B-A3B-IQ4_XS.gguf", "IQ4_XS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("gemma-3-4b-it-qat-q4_0.gguf", "Q4_0"),
        ("Model.i1-Q4_K_M.gguf", "I1-Q4_K_M"),
        ("BF16/Llama-4-BF16-00001-of-00005.gguf", "BF16"),
        ("Mistral.f16.q6_k.gguf", "Q6_K"),
        ("model-TQ2_0.gguf", "TQ2_0"),
        ("ggml-model.gguf", None),
        ("q4zebra/stories15M.gguf", None),
    ],
)
def test_the_quantization_is_read_from_the_name(path: str, quant: str | None) -> None:
    assert quant_of(path) == quant


@pytest.mark.parametrize(
    ("there", "budget_gb", "expected", "why"),
    [
        # 8B: everyone's default where it fits, then what is next below
        ({"Q3_K_M": 4.0, "IQ4_XS": 4.5, "Q4_K_S": 4.7, "Q4_K_M": 4.9, "Q6_K": 6.6, "Q8_0": 8.5}, 16, "Q4_K_M", "usual"),
        ({"Q3_K_M": 4.0, "IQ4_XS": 4.5, "Q4_K_S": 4.7, "Q4_K_M": 4.9, "Q6_K": 6.6}, 5.8, "Q4_K_S", "too large for"),
        ({"Q3_K_M": 4.0, "Q4_K_M": 4.9, "Q8_0": 8.5}, 5.2, "Q3_K_M", "Q4_K_M (4.9 GB) is too large for 5.2 GB"),
        ({"IQ2_M": 2.9, "Q2_K": 3.2, "IQ3_M": 3.8, "Q4_K_M": 4.9}, 4.2, "Q2_K", "is too large"),
        ({"UD_Q2_K_XL": 3.3, "UD_Q4_K_XL": 5.1}, None, "UD-Q4_K_XL", "usual"),
        ({"UD_Q4_K_XL": 5.1, "Q4_K_M": 4.9}, 64, "Q4_K_M", "usual"),
        # small: as good as it gets
        ({"Q4_K_M": 0.4, "Q8_0": 0.64, "F16": 1.2}, 16, "Q8_0", "small"),
        ({"Q4_K_M": 1.1, "Q6_K": 1.4, "F16": 3.3}, 16, "Q6_K", "small"),
        ({"Q4_K_M": 0.4, "Q8_0": 0.64}, 1.0, "Q4_K_M", "usual"),
        ({"Q4_K_M": 2.0, "Q8_0": 3.4}, 64, "Q4_K_M", "usual"),
        # no four bits: the next larger
        ({"Q5_K_M": 5.7, "Q6_K": 6.6, "Q8_0": 8.5}, 64, "Q5_K_M", "usual"),
        ({"Q8_0": 8.5, "BF16": 16.0}, 64, "Q8_0", "usual"),
        ({"Q2_K": 3.2, "Q8_0": 8.5}, 6, "Q2_K", "too large"),
        # its own format
        ({"MXFP4": 12.1, "F16": 13.8}, 32, "MXFP4", "usual"),
        ({"Q4_0_4_4": 4.6, "Q4_0": 4.6, "Q8_0": 8.5}, 32, "Q4_0", "usual"),
        ({"MXFP4": 12.1}, 64, "MXFP4", "only one"),
    ],
)
def test_without_a_wish_the_usual_one_that_fits_is_chosen(
    there: dict[str, float], budget_gb: float | None, expected: str, why: str
) -> None:
    budget = None if budget_gb is None else int(budget_gb * GB)
    choice = choose(listed(**there), None, budget, REPO)
    assert choice.candidate.quant == expected
    assert why in (choice.why or "")
    assert choice.notice is None


def test_where_nothing_fits_the_smallest_is_chosen_and_the_numbers_are_told() -> None:
    choice = choose(listed(Q2_K=26, Q4_K_M=42, Q8_0=75), None, 8 * GB, REPO)
    assert choice.candidate.quant == "Q2_K"
    assert choice.notice is not None
    assert "needs about 29.1 GB" in choice.notice
    assert "8 GB are available" in choice.notice


def test_what_is_loaded_beside_the_model_counts() -> None:
    there = listed(Q3_K_M=4.0, Q4_K_M=4.9)
    budget = needed_bytes(int(4.9 * GB))
    assert choose(there, None, budget, REPO).candidate.quant == "Q4_K_M"
    assert choose(there, None, budget, REPO, extra_bytes=GB // 2).candidate.quant == "Q3_K_M"


@pytest.mark.parametrize("asked", ["q4_k_m", "Q4_K_M", "model-q4_k_m.gguf"])
def test_a_quantization_is_asked_for_in_any_case_or_by_the_files_name(asked: str) -> None:
    choice = choose(listed(Q4_K_M=4.9, Q4_K_S=4.7, Q8_0=8.5), asked, 1, REPO)
    assert choice.candidate.quant == "Q4_K_M"
    assert choice.why is None


@pytest.mark.parametrize(
    ("asked", "paths", "expected"),
    [
        ("Q4_K_XL", ("m-UD-Q4_K_XL.gguf", "m-Q4_K_M.gguf"), "m-UD-Q4_K_XL.gguf"),
        ("UD-Q4_K_M", ("m-UD-Q4_K_M.gguf", "m-Q4_K_M.gguf"), "m-UD-Q4_K_M.gguf"),
        ("q4_k_m", ("m-UD-Q4_K_M.gguf", "m-Q4_K_M.gguf"), "m-Q4_K_M.gguf"),
        ("Q4_K_M", ("M.i1-Q4_K_M.gguf", "M.i1-Q6_K.gguf"), "M.i1-Q4_K_M.gguf"),
        ("F16", ("m-fp16.gguf", "m-bf16.gguf"), "m-fp16.gguf"),
        ("BF16", ("m-f16.gguf", "BF16/m-BF16-00001-of-00001.gguf"), "BF16/m-BF16-00001-of-00001.gguf"),
        ("MXFP4", ("m-mxfp4.gguf", "m-Q8_0.gguf"), "m-mxfp4.gguf"),
        ("latest", ("m-Q4_K_M.gguf", "m-Q6_K.gguf"), "m-Q4_K_M.gguf"),
    ],
)
def test_the_recipe_need_not_be_named_and_decides_where_it_is(
    asked: str, paths: tuple[str, ...], expected: str
) -> None:
    assert choose(files(*paths, size=3 * GB), asked, None, REPO).candidate.files[0].path == expected


def test_a_quantization_that_is_not_there_is_an_error_with_those_that_are_and_their_sizes() -> None:
    with pytest.raises(ModelNotFound, match=r"no Q5_K_M; it has Q4_K_M \(4\.92 GB\), Q8_0 \(8\.54 GB\)"):
        choose(listed(Q8_0=8.54, Q4_K_M=4.92), "Q5_K_M", None, REPO)


def test_two_models_in_one_repository_are_told_apart_by_their_files() -> None:
    there = files("seven-7b-Q4_K_M.gguf", "thirteen-13b-Q4_K_M.gguf", size=5 * GB)
    for asked in (None, "Q4_K_M"):
        with pytest.raises(InvalidParameter, match=rf"hf:{REPO}/seven-7b-Q4_K_M\.gguf.*hf:{REPO}/thirteen"):
            choose(there, asked, None, REPO)


def test_the_shards_of_a_model_are_one_model_in_order() -> None:
    paths = [f"Q4_K_M/big-Q4_K_M-{number:05}-of-00003.gguf" for number in (2, 3, 1)]
    choice = choose(files(*paths, "big-Q8_0.gguf", size=20 * GB), "Q4_K_M", None, REPO)
    assert [file.path for file in choice.candidate.files] == sorted(paths)
    assert choice.candidate.size_bytes == 60 * GB
    assert str(choice.candidate) == "Q4_K_M (60 GB in 3 files)"


def test_a_single_file_is_preferred_to_the_split_copy_of_the_same() -> None:
    split = ["m-q4_k_m-00001-of-00002.gguf", "m-q4_k_m-00002-of-00002.gguf"]
    assert choose(files(*split, "m-q4_k_m.gguf"), "q4_k_m", None, REPO).candidate.num_shards == 1


def test_a_split_model_with_a_shard_missing_is_not_chosen_and_is_an_error_if_asked_for() -> None:
    there = files("m-Q4_K_M-00001-of-00003.gguf", "m-Q4_K_M-00003-of-00003.gguf", "m-Q5_K_M.gguf", size=5 * GB)
    assert choose(there, None, None, REPO).candidate.quant == "Q5_K_M"
    with pytest.raises(ModelNotFound, match="2 of the 3 files"):
        choose(there, "Q4_K_M", None, REPO)
    with pytest.raises(ModelNotFound, match="2 of the 3 files"):
        choose(there[:2], None, None, REPO)
    with pytest.raises(ModelNotFound, match="2 of the 3 files"):
        choose_file(there, there[0].path, REPO)


@pytest.mark.parametrize(
    "beside",
    [
        "mmproj-model-f16.gguf",
        "Ministral-3-3B-Instruct-2512-BF16-mmproj.gguf",
        "imatrix_unsloth.gguf",
        "model-Q4_K_M.imatrix.gguf",
        "mtp-model-Q4_K_M.gguf",
        "MTP/model-Q4_K_M.gguf",
        "model-draft-Q4_K_M.gguf",
        "model-eagle3-Q4_K_M.gguf",
        "model-dspark-Q4_K_M.gguf",
        "lora/model-lora-Q4_K_M.gguf",
    ],
)
def test_what_lies_beside_a_model_is_not_taken_for_one(beside: str) -> None:
    there = files("model-Q4_K_M.gguf", beside, size=3 * GB)
    assert [one.files[0].path for one in candidates(there)] == ["model-Q4_K_M.gguf"]


def test_a_repository_of_draft_models_has_models() -> None:
    choice = choose(files("Qwen2.5-Coder-DRAFT-0.6B-Q4_0.gguf"), None, None, REPO)
    assert choice.candidate.quant == "Q4_0"


@pytest.mark.parametrize("path", ["mmproj-F16.gguf", "imatrix.gguf"])
def test_a_helper_file_asked_for_as_a_model_is_refused(path: str) -> None:
    with pytest.raises(InvalidParameter, match="not a model by itself"):
        choose_file(files("m-Q4_K_M.gguf", path), path, REPO)
    with pytest.raises(ModelNotFound, match="no model among its GGUF files"):
        choose(files(path), None, None, REPO)


def test_exactly_the_file_that_was_named_is_taken_with_its_shards() -> None:
    there = files("a/m-Q4_K_M-00001-of-00002.gguf", "a/m-Q4_K_M-00002-of-00002.gguf", "b/m-Q4_K_M.gguf")
    assert [file.path for file in choose_file(there, "b/m-Q4_K_M.gguf", REPO).files] == ["b/m-Q4_K_M.gguf"]
    shards = choose_file(there, "a/m-Q4_K_M-00002-of-00002.gguf", REPO).files
    assert [file.path for file in shards] == [there[0].path, there[1].path]
    with pytest.raises(ModelNotFound, match=r"did you mean hf:.*/b/m-Q4_K_M\.gguf"):
        choose_file(there, "m-q4_k_m.gguf", REPO)
    with pytest.raises(ModelNotFound, match="it has a/m-Q4_K_M-00001"):
        choose_file(there, "x.gguf", REPO)


@pytest.mark.parametrize(
    ("paths", "model", "expected"),
    [
        (("m-Q4_K_M.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"), "m-Q4_K_M.gguf", "mmproj-F16.gguf"),
        (("m-Q4_K_M.gguf", "mmproj-m-Q8_0.gguf", "mmproj-m-BF16.gguf"), "m-Q4_K_M.gguf", "mmproj-m-BF16.gguf"),
        (("m-Q4_K_M.gguf", "mmproj-m-Q8_0.gguf"), "m-Q4_K_M.gguf", "mmproj-m-Q8_0.gguf"),
        (("m-Q4_K_M.gguf",), "m-Q4_K_M.gguf", None),
        (("a/m-Q4_K_M.gguf", "b/mmproj-F16.gguf"), "a/m-Q4_K_M.gguf", None),
        (("a/m-Q4_K_M.gguf", "ab/mmproj-F16.gguf"), "a/m-Q4_K_M.gguf", None),
        (("a/m-Q4_K_M.gguf", "mmproj-F16.gguf"), "a/m-Q4_K_M.gguf", "mmproj-F16.gguf"),
        (("a/m-Q4_K_M.gguf", "mmproj-F16.gguf", "a/mmproj-F32.gguf"), "a/m-Q4_K_M.gguf", "a/mmproj-F32.gguf"),
        (("x-4b-Q4_K_M.gguf", "y-9b-Q4_K_M.gguf", "mmproj-x-4b-F16.gguf", "mmproj-y-9b-F32.gguf"), "y-9b-Q4_K_M.gguf",
         "mmproj-y-9b-F32.gguf"),
    ],
)  # fmt: skip
def test_the_projector_is_the_one_that_belongs_to_the_model(
    paths: tuple[str, ...], model: str, expected: str | None
) -> None:
    found = projector(files(*paths), choose_file(files(*paths), model, REPO))
    assert (found and found.path) == expected


@pytest.mark.parametrize(
    ("room", "expected"), [(None, "F16"), (1000, "F16"), (999, "Q8_0"), (400, "Q4_K_M"), (1, "Q4_K_M")]
)
def test_the_best_type_of_projector_that_memory_holds_is_taken(room: int | None, expected: str) -> None:
    model = ListedFile("m-Q4_K_M.gguf", 100)
    sizes = {"F32": 2000, "BF16": 1000, "F16": 1000, "Q8_0": 500, "Q4_K_M": 300}
    listed = [ListedFile(f"mmproj-{quant}.gguf", size) for quant, size in sizes.items()]
    found = projector([model, *listed], Candidate((model,)), None if room is None else 100 + room)
    assert found is not None
    assert found.path == f"mmproj-{expected}.gguf"


PARTS = st.lists(
    st.sampled_from(
        ["m", "Q4_K_M", "q8_0", "UD", "IQ2_XXS", "F16", "mmproj", "mtp", "00001", "of", "00003", "99999", "a/b", "é"]
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip
PATHS = st.builds(lambda parts, sep: f"{sep.join(parts)}.gguf", PARTS, st.sampled_from(["-", ".", "/"]))
LISTS = st.lists(st.builds(ListedFile, PATHS, st.integers(0, 10**12)), max_size=12, unique_by=lambda file: file.path)


@settings(max_examples=50)
@given(LISTS, st.none() | st.sampled_from(["Q4_K_M", "q8_0", "latest", "x"]), st.none() | st.integers(0, 10**12))
def test_every_list_of_files_gives_a_whole_model_of_that_list_or_an_error_that_explains(
    there: list[ListedFile], quant: str | None, budget: int | None
) -> None:
    try:
        choice = choose(there, quant, budget, REPO)
    except (ModelNotFound, InvalidParameter):
        return
    assert choice.candidate.whole
    assert set(choice.candidate.files) <= set(there)
    assert len({split_shard(file.path)[0] for file in choice.candidate.files}) == 1
    beside = projector(there, choice.candidate)
    assert beside is None or beside in there


def candidates_of_one(there: list[ListedFile], path: str) -> list[ListedFile]:
    """Only the file, if it exists, is not a shard and has the name of a model."""
    return [
        file for one in candidates([file for file in there if file.path == path]) if one.whole for file in one.files
    ]


@settings(max_examples=50)
@given(LISTS, PATHS)
def test_any_file_asked_for_is_given_or_refused_with_a_reason(there: list[ListedFile], path: str) -> None:
    try:
        assert path in [file.path for file in choose_file(there, path, REPO).files]
    except (ModelNotFound, InvalidParameter):
        assert path not in [file.path for file in candidates_of_one(there, path)]


@given(PATHS)
def test_a_shards_name_can_be_written_again(path: str) -> None:
    stem, number, count = split_shard(path)
    if count > 1:
        assert shard_name(stem, number, count) == path
    assert bits(quant_of(path) or "") in range(33)
