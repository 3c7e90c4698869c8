"""What is known of llama.cpp without loading it is what the library, its headers and its bindings say."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest

from localllm.gguf.rules import (
    assistants,
    draft_heads,
    encoders,
    media_rows,
    memory,
    nextn,
    pictures,
    rollback,
    sounds,
    target_states,
)
from localllm.gguf.tables import BLOCK_TYPES
from localllm.llama import bindings, devices, layouts, log, log_text
from localllm.llama.drafts import next_symbols
from localllm.llama.facts import FACTS
from localllm.llama.lacking import LOOKED_AT, MEDIA, QUANTIZE, lacking
from localllm.llama.library import Library
from localllm.llama.media.opening import open_media
from localllm.llama.runtimes import installed
from localllm.llama.runtimes.found import PACKAGE
from localllm.llama.states import saved
from localllm.types import upstream
from localllm.types.libraries import builds
from localllm.types.libraries.builds import Build
from tests.llama.needs import guess_functions, needs

INCLUDE = installed.find_bindings().parent / "include"
ARCHITECTURES = {
    *memory._WINDOW_PERIODS, *memory._DEFAULT_WINDOWS, *memory._FIXED_WINDOWS, *memory._RECURRENT, *memory._HYBRID,
    *memory._NEXTN_APART, *memory._NEXTN_WITHIN, *memory._INDEXED, *nextn.FORMS, *nextn._CANNOT_ROLL_BACK,
    *target_states.GIVES_STATES, *draft_heads._READERS, assistants.TARGET, *rollback.ROLLS_BACK,
    *encoders.NON_CAUSAL, *encoders.SCORE_PROBABILITIES, *media_rows.NO_ROWS, *media_rows.ONLY_PLANES,
    *builds.named(upstream.LLAMA_VERSION).architectures,
}  # fmt: skip


def header(name: str) -> str:
    """Without its comments."""
    text = (INCLUDE / name).read_text("utf-8")
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def enum(file: str, name: str) -> dict[str, int]:
    """The numbers of an enum."""
    match = re.search(rf"enum {name} \{{(.*?)\}}", header(file), re.DOTALL)
    assert match is not None, name
    numbers: dict[str, int] = {}
    following = 0
    for item in filter(None, map(str.strip, match[1].split(","))):
        label, _, value = map(str.strip, item.partition("="))
        numbers[label] = int(value, 0) if value else following
        following = numbers[label] + 1
    return numbers


def macro(file: str, name: str) -> int:
    match = re.search(rf"define {name} +(\d+)", header(file))
    assert match is not None, name
    return int(match[1])


@pytest.fixture(scope="module")
def content(loaded_library: Library) -> bytes:
    """The bytes of the library's own files."""
    choice, files = loaded_library.choice, installed.find(loaded_library.choice.runtime.library)
    variant = [] if choice.variant is None else [files.variants[choice.variant]]
    return b"".join(path.read_bytes() for path in (*files.core, *variant))


def test_the_library_is_built_from_the_commit_that_is_known(loaded_library: Library) -> None:
    build, known = loaded_library.build, loaded_library.known
    commit = build.commit.removesuffix("-dirty")
    assert (commit == "unknown") if not known.commit else (len(commit) >= 7 and known.commit.startswith(commit))
    assert (build.llama_version, loaded_library.ggml.text("version")) == (known.version, known.ggml)
    assert build.package_version == upstream.PACKAGE_VERSION
    if loaded_library.choice.runtime == PACKAGE:
        assert (known.commit, known.version) == (upstream.COMMIT, upstream.LLAMA_VERSION)


def test_numbers_are_those_of_the_bindings(loaded_library: Library) -> None:
    api = loaded_library.api
    for number, name in upstream.FILE_TYPES.items():
        assert getattr(api, f"LLAMA_FTYPE_{'ALL' if name == 'F32' else 'MOSTLY'}_{name}") == number
    known = {getattr(api, name) for name in dir(api) if name.startswith("LLAMA_FTYPE_")}
    assert known == {*upstream.FILE_TYPES, upstream.GUESSED_FILE_TYPE}
    for number, pooling in enumerate(upstream.POOLING_TYPES):
        assert getattr(api, f"LLAMA_POOLING_TYPE_{pooling.upper()}") == number
    assert len([name for name in dir(api) if name.startswith("LLAMA_POOLING_TYPE_")]) == len(upstream.POOLING_TYPES) + 1
    assert api.LLAMA_FTYPE_GUESSED == upstream.GUESSED_FILE_TYPE
    assert api.LLAMA_MAX_DEVICES == upstream.MAX_DEVICES
    assert api.LLAMA_DEFAULT_SEED == upstream.DEFAULT_SEED
    assert loaded_library.known.state_version == api.LLAMA_STATE_SEQ_VERSION
    assert api.LLAMA_STATE_SEQ_FLAGS_NONE == saved.WHOLE


def test_numbers_are_those_of_the_headers() -> None:
    assert macro("ggml-rpc.h", "GGML_RPC_MAX_SERVERS") == upstream.MAX_RPC_SERVERS
    assert macro("ggml.h", "GGML_MAX_NAME") == upstream.MAX_TENSOR_NAME_BYTES + 1
    kinds = {"CPU": devices.CPU, "GPU": devices.GPU, "IGPU": devices.IGPU, "ACCEL": devices.ACCEL, "META": 4}
    assert enum("ggml-backend.h", "ggml_backend_dev_type") == {
        f"GGML_BACKEND_DEVICE_TYPE_{name}": number for name, number in kinds.items()
    }
    levels = {"DEBUG": log.DEBUG, "INFO": log.INFO, "WARN": log.WARN, "ERROR": log.ERROR, "CONT": log.CONTINUED}
    assert enum("ggml.h", "ggml_log_level") == {
        "GGML_LOG_LEVEL_NONE": 0, **{f"GGML_LOG_LEVEL_{name}": number for name, number in levels.items()},
    }  # fmt: skip


def test_the_description_of_the_build_is_that_of_the_headers_that_come_with_it() -> None:
    build = builds.named(upstream.LLAMA_VERSION)
    assert build.commit == upstream.COMMIT
    assert build.ggml == upstream.GGML_VERSION
    assert build.numbers["LLAMA_STATE_SEQ_VERSION"] == macro("llama.h", "LLAMA_STATE_SEQ_VERSION")
    assert build.rpc_protocol == tuple(macro("ggml-rpc.h", f"RPC_PROTO_{part}_VERSION") for part in ("MAJOR", "MINOR"))


@pytest.mark.parametrize("build", builds.known(), ids=lambda build: build.version)
def test_structs_written_by_hand_are_those_of_every_build(build: Build) -> None:
    init = [("mem_size", "uint64"), ("mem_buffer", "pointer"), ("no_alloc", "bool")]
    assert build.fields("ggml_init_params") == init
    assert build.fields("llama_model_tensor_buft_override") == [("pattern", "pointer"), ("buft", "pointer")]
    assert build.fields("ggml_backend_dev_props") == [
        ("name", "pointer"), ("description", "pointer"), ("memory_free", "uint64"), ("memory_total", "uint64"),
        ("type", "uint32"), ("device_id", "pointer"), ("caps", "struct ggml_backend_dev_caps"),
    ]  # fmt: skip
    is_async, *others = build.fields("ggml_backend_dev_caps")
    assert (is_async, {kind for _, kind in others}, len(others)) == (("async", "bool"), {"bool"}, 4)
    assert build.structs["ggml_backend_dev_props"][0] == ctypes.sizeof(layouts.DeviceProperties)
    device = build.tables["ggml_backend_device_i"]
    assert device[:4] == ("get_name", "get_description", "get_memory", "get_type")


def test_structs_and_signatures_in_use_are_those_of_the_loaded_build(loaded_library: Library) -> None:
    api, ggml, build = loaded_library.api, loaded_library.ggml, loaded_library.known
    there = {name: getattr(api, name) for name in build.functions if bindings.is_there(api, name)}
    bound = {name: function for name, function in there.items() if hasattr(function, "argtypes")}
    ours = {f"ggml_{name}": function for name, function in ggml._functions.items()}
    assert len(bound) > 200
    for name in build.structs:
        assert not hasattr(api, name) or layouts.is_laid_out(getattr(api, name), build, name), name
    for name, function in {**bound, **ours}.items():
        kinds = [kind.removeprefix("u") for kind in build.functions[name]]  # the bindings have int for every enum
        assert [_kind(each) for each in (function.restype, *function.argtypes)] == kinds, name


def _kind(given: Any) -> str:
    """As `native/llama_headers.py` writes types, without signs."""
    if given is None:
        return "void"
    if issubclass(given, ctypes.Structure):
        return f"struct {given.__name__}"
    code = getattr(given, "_type_", "P")
    if given is ctypes.c_void_p or code in ("P", "z", "Z") or not isinstance(code, str):
        return "pointer"
    names = {"?": "bool", "f": "float", "d": "double"}
    return names.get(code) or f"int{ctypes.sizeof(given) * 8}"


def test_blocks_of_tensors_are_those_of_ggml(loaded_library: Library) -> None:
    ggml, api = loaded_library.ggml, loaded_library.api
    ggml.bind({
        "ggml_type_name": (ctypes.c_char_p, [ctypes.c_int]),
        "ggml_blck_size": (ctypes.c_int64, [ctypes.c_int]),
        "ggml_type_size": (ctypes.c_size_t, [ctypes.c_int]),
    })  # fmt: skip
    for number, block in BLOCK_TYPES.items():
        assert ggml.text("type_name", number).upper() == block.name
        assert (ggml.blck_size(number), ggml.type_size(number)) == (block.length, block.size)
    for name in (name for name in dir(api) if name.startswith("GGML_TYPE_") and name != "GGML_TYPE_COUNT"):
        assert BLOCK_TYPES[getattr(api, name)].name == name.removeprefix("GGML_TYPE_")


def test_whatever_a_library_may_lack_is_a_reason_to_test_it_again(loaded_library: Library) -> None:
    """Else `doctor` would not say what this localllm looks at and an older one did not."""
    assert all(what.startswith(LOOKED_AT) for what in lacking(loaded_library))


def test_functions_by_mangled_name_are_there(loaded_library: Library) -> None:
    """In the library that the bindings bring; others may lack them, and then nothing guesses."""
    functions = next_symbols.find(loaded_library.api)
    if loaded_library.choice.runtime != PACKAGE:
        functions = guess_functions(loaded_library)
    assert functions is not None
    assert functions.reads_layers


@pytest.mark.parametrize("fact", [fact for fact in FACTS if fact.texts], ids=lambda fact: fact.what)
def test_texts_that_are_searched_are_in_the_library(content: bytes, fact: Any, loaded_library: Library) -> None:
    if "localllm.llama.log_text:QUANTIZING" in fact.places:
        needs(loaded_library, QUANTIZE)
    assert [text for text in fact.texts if text.encode() not in content] == []


def test_every_pattern_matches_what_the_library_writes() -> None:
    """The format that is in the library, filled in."""
    for pattern, line in (
        (log_text.LAYER, "load_tensors: layer   3 assigned to device Vulkan0, is_swa = 0"),
        (log_text.UNKNOWN_ARCHITECTURE, "error loading model: unknown model architecture: 'k2-horizon'"),
        (log_text.MOVED, "tensor blk.0.ffn_up.weight (0 MiB q8_0) buffer type overridden to CPU"),
        (log_text.UNLOCKED, "warning: failed to mlock 100-byte buffer (after previously locking 0 bytes): no"),
        (log_text.SHORTAGE, "alloc_tensor_range: failed to allocate Vulkan1 buffer of size 94371840"),
        (log_text.ROTATION, "llama_kv_cache: attn_rot_k = 1, n_embd_head_k_all = 64"),
        (log_text.ROTATION, "llama_kv_cache: n_rot_k = 64, n_embd_head_k_all = 64"),
        (log_text.QUANTIZED_SIZE, "llama_model_quantize_impl: quant size  =     0.34 MiB (4.50 BPW)"),
        (log_text.QUANTIZING, "[   1/  20]  blk.0.attn_k.weight  - [   64,    32,     1,     1], type =    f32, "),
        (
            log_text.CONVERTED,
            "[   1/  20]  blk.0.attn_k.weight  - [ 64, 32], type =  f32, size = 0.2 -> 0.1 MiB (q4_K)",
        ),
        (log_text.OTHER_TYPES, "llama_model_quantize_impl: WARNING: 2 of 9 tensor(s) required fallback quantization"),
    ):
        assert pattern.search(line), line


def test_listed_architectures_are_known_to_the_library(content: bytes, loaded_library: Library) -> None:
    """But for those that came later. Compilers keep one of two texts that end alike."""
    known, all_builds = loaded_library.known, builds.known()
    is_older = all_builds.index(known) < all_builds.index(builds.named(upstream.LLAMA_VERSION))
    missing = {name for name in ARCHITECTURES if name.encode() + b"\0" not in content}
    assert missing == (ARCHITECTURES - known.architectures.keys() if is_older else set())


def test_types_of_projectors_are_known_to_libmtmd(loaded_library: Library) -> None:
    """As it spells them: others would be refused. Names of its classes end alike."""
    needs(loaded_library, MEDIA)
    content = Path(open_media(loaded_library)._libmtmd._name).read_bytes()
    pattern = r"(?<!clip_graph_)(?<!preprocessor_){}\0"
    known = {name for name in pictures.TYPES | sounds.TYPES if re.search(pattern.format(name).encode(), content)}
    assert known == (pictures.TYPES | sounds.TYPES) - set(loaded_library.known.unknown_projectors)
