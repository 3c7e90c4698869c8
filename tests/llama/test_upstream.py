"""What is known of llama.cpp without loading it is what the library, its headers and its bindings say."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from localllm.gguf.rules import assistants, draft_heads, encoders, memory, nextn, rollback, target_states
from localllm.gguf.tables import BLOCK_TYPES
from localllm.llama import devices, layouts, log, log_text
from localllm.llama.drafts import next_symbols
from localllm.llama.facts import FACTS
from localllm.llama.library import Library
from localllm.llama.runtimes import installed
from localllm.llama.states import saved
from localllm.types import upstream

INCLUDE = installed.find_bindings().parent / "include"
ARCHITECTURES = {
    *memory._WINDOW_PERIODS, *memory._DEFAULT_WINDOWS, *memory._FIXED_WINDOWS, *memory._RECURRENT, *memory._HYBRID,
    *memory._NEXTN_APART, *memory._NEXTN_WITHIN, *memory._INDEXED, *nextn.FORMS, *nextn._CANNOT_ROLL_BACK,
    *target_states.GIVES_STATES, *draft_heads._READERS, assistants.TARGET, *rollback.ROLLS_BACK,
    *encoders.NON_CAUSAL, *encoders.SCORE_PROBABILITIES,
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


def fields(file: str, struct: str) -> list[str]:
    """Its members' types and names, with those of inner structs in their place."""
    match = re.search(rf"struct {struct} \{{(.*?)\}};", header(file), re.DOTALL)
    assert match is not None, struct
    found: list[str] = []
    for member in filter(None, (" ".join(each.split()) for each in match[1].split(";"))):
        inner = re.fullmatch(r"struct (\w+) \w+", member)
        found += [member] if inner is None else fields(file, inner[1])
    return found


@pytest.fixture(scope="module")
def content(loaded_library: Library) -> bytes:
    """The bytes of the library's own files."""
    choice, files = loaded_library.choice, installed.find(loaded_library.choice.runtime.library)
    variant = [] if choice.variant is None else [files.variants[choice.variant]]
    return b"".join(path.read_bytes() for path in (*files.core, *variant))


def test_the_library_is_built_from_the_commit_that_is_known(loaded_library: Library) -> None:
    build, commit = loaded_library.build, loaded_library.build.commit.removesuffix("-dirty")
    assert len(commit) >= 7
    assert upstream.COMMIT.startswith(commit)
    assert build.llama_version.startswith(upstream.LLAMA_VERSION)
    assert loaded_library.ggml.text("version").startswith(upstream.GGML_VERSION)
    assert build.package_version == upstream.PACKAGE_VERSION


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
    assert api.LLAMA_STATE_SEQ_VERSION == upstream.STATE_VERSION
    assert api.LLAMA_STATE_SEQ_FLAGS_NONE == saved.WHOLE


def test_numbers_are_those_of_the_headers() -> None:
    versions = [macro("ggml-rpc.h", f"RPC_PROTO_{which}_VERSION") for which in ("MAJOR", "MINOR")]
    assert tuple(versions) == upstream.RPC_PROTOCOL
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


def test_structs_written_by_hand_are_those_of_the_headers() -> None:
    assert fields("ggml.h", "ggml_init_params") == ["size_t mem_size", "void * mem_buffer", "bool no_alloc"]
    assert [name for name, *_ in layouts.InitParams._fields_] == ["mem_size", "mem_buffer", "no_alloc"]
    assert fields("llama.h", "llama_model_tensor_buft_override") == [
        "const char * pattern",
        "ggml_backend_buffer_type_t buft",
    ]
    assert [name for name, *_ in layouts.BufferOverride._fields_] == ["pattern", "buft"]
    theirs, ours = fields("ggml-backend.h", "ggml_backend_dev_props"), layouts.DeviceProperties._fields_
    assert theirs[:7] == [
        "const char * name", "const char * description", "size_t memory_free", "size_t memory_total",
        "enum ggml_backend_dev_type type", "const char * device_id", "bool async",
    ]  # fmt: skip
    assert [name for name, *_ in ours[:6]] == [member.split()[-1] for member in theirs[:6]]
    assert all(member.startswith("bool ") for member in theirs[6:])
    assert len(theirs[7:]) == ctypes.sizeof(ours[7][1])


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


def test_functions_by_mangled_name_are_there(loaded_library: Library) -> None:
    """In the library that the bindings bring; others may lack them, and then nothing guesses."""
    functions = next_symbols.find(loaded_library.api)
    assert functions is not None
    assert functions.reads_layers


@pytest.mark.parametrize("fact", [fact for fact in FACTS if fact.texts], ids=lambda fact: fact.what)
def test_texts_that_are_searched_are_in_the_library(content: bytes, fact: Any) -> None:
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
        (log_text.QUANTIZED_SIZE, "llama_model_quantize_impl: quant size  =     0.34 MiB (4.50 BPW)"),
        (log_text.QUANTIZING, "[   1/  20]  blk.0.attn_k.weight  - [   64,    32,     1,     1], type =    f32, "),
        (log_text.OTHER_TYPES, "llama_model_quantize_impl: WARNING: 2 of 9 tensor(s) required fallback quantization"),
    ):
        assert pattern.search(line), line


def test_listed_architectures_are_known_to_the_library(content: bytes) -> None:
    """Compilers keep one of two texts that end alike."""
    assert sorted(name for name in ARCHITECTURES if name.encode() + b"\0" not in content) == []
