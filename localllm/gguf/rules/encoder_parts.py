"""What libmtmd takes for granted of a projector's file: without it, the process ends at the first picture or sound.

Read off the assertions and unchecked tensors of tools/mtmd/clip.cpp, models/ and mtmd-image.cpp. What it refuses in
words by itself (a missing matrix, a key without a default) is left to it.
"""

from __future__ import annotations

from localllm.gguf.rules.clip_keys import ClipKeys
from localllm.gguf.rules.sounds import HALVED, STACKED, WHISPER

CLASS, POSITIONS, PATCHES, PATCH_BIAS = (
    "v.class_embd", "v.position_embd.weight", "v.patch_embd.weight", "v.patch_embd.bias"
)  # fmt: skip
WITH_CLASS = ("cogvlm", "internvl", "llama4", "nemotron_v2_vl")
WITHOUT_CLASS = (
    "exaone4_5", "glm4v", "glm5v", "granite4_vision", "ling3vl", "mimovl", "minicpmv4_6", "minimax_m3",
    "qwen2.5vl_merger", "qwen2vl_merger", "qwen3vl_merger", "resampler", "step3vl", "youtuvl",
)  # fmt: skip
WITH_POSITIONS = (
    "adapter", "cogvlm", "gemma4uv", "gemma4v", "granite4_vision", "internvl", "kimik25", "kimivl", "ldp", "ldpv2",
    "lfm2", "ling3vl", "llama4", "minicpmv4_6", "mlp", "muse-glimmer", "nemotron_v2_vl", "paddleocr", "phi4",
    "qwen3vl_merger", "resampler", "step3vl",
)  # fmt: skip
"""Types whose positions are trained."""
WITH_BIAS, WITHOUT_BIAS = ("glm4v", "glm5v", "qwen3vl_merger"), ("exaone4_5", "minimax_m3", "qwen2vl_merger")
OWN_PATCHES = ("deepseekocr", "deepseekocr2", "gemma3nv")
"""Types that cut pictures into patches with tensors of other names."""
TOLD_PIXELS = ("dots3note_v", "dots_ocr", "exaone4_5", "glm5v", "mimovl", "paddleocr", "phi4")
"""Types whose file must say how large pictures are."""
PATTERNED = {"mimovl": "vision", "mimo_audio": "audio"}
"""Types whose file says of each layer whether it sees all."""
LFM2_WIDTH = 512
"""Numbers of a position of lfm2a, whatever the file says."""
FRAMES = 1500
"""Places of a piece of 30 seconds in Whisper's encoder, and in lfm2a's table."""
STEP = 8
"""Frames of which parakeet's convolutions leave one."""


def check_picture_parts(keys: ClipKeys, kind: str) -> None:
    """Raises `InvalidModelFile`."""
    _need(keys, kind, CLASS, of=WITH_CLASS, never=WITHOUT_CLASS)
    _need(keys, kind, POSITIONS, of=WITH_POSITIONS)
    _need(keys, kind, PATCH_BIAS, of=WITH_BIAS, never=WITHOUT_BIAS)
    if kind not in OWN_PATCHES and PATCHES not in keys.names:
        keys.fail(f"it has no tensor {PATCHES}")
    if kind in TOLD_PIXELS:
        keys.number("clip.vision.image_min_pixels")
    if kind == "granite4_vision":
        _check_granite(keys)
    if kind == "mimovl" and keys.number("clip.vision.attention.head_count") % keys.number(
        "clip.vision.attention.head_count_kv"
    ):
        keys.fail("its heads do not share keys evenly", "clip.vision.attention.head_count_kv")
    if kind in ("deepseekocr", "deepseekocr2", "internvl"):
        least, most = {"internvl": (1, 12), "deepseekocr": (2, 9), "deepseekocr2": (2, 6)}[kind]
        least = keys.number("clip.vision.preproc_min_tiles", least, least=0)
        keys.number("clip.vision.preproc_max_tiles", max(least, most), least=max(1, least))
    _check_pattern(keys, kind)


def check_sound_parts(keys: ClipKeys, kind: str) -> None:
    """Raises `InvalidModelFile`."""
    width = keys.number("clip.audio.embedding_length", most=2**20)
    if kind in WHISPER:
        _check_whisper(keys, kind, width)
    if kind == "qwen3a" and _rows(keys, "a.position_embd.weight") < 13:
        keys.fail("its table of positions (a.position_embd.weight) has fewer than 13 rows")
    if kind == "lfm2a":
        _check_lfm2(keys, width)
    if kind == "gemma4a" and not keys.shape("mm.a.input_projection.weight"):
        keys.fail("it has no tensor mm.a.input_projection.weight")
    if kind == "parakeet":
        _check_parakeet(keys)
    if kind == "granite_speech":
        _check_granite_speech(keys, width)
    if kind == "mimo_audio":
        keys.number("clip.audio.block_count", least=3)  # the third layer's result is added in the end
        keys.number("clip.audio.window_size")
        _check_pattern(keys, kind)


def stacked_rows(places: int, width: int, factor: int) -> int:
    """Rows that libmtmd makes of places by joining `factor` of them: it rounds up as if lengths were powers of two
    (`build_stack`), which makes the number that it expects for few widths."""
    stride = width * factor
    return places if factor == 1 else (places * width + stride - 1 & -stride) // stride


def _check_whisper(keys: ClipKeys, kind: str, width: int) -> None:
    keys.number("clip.audio.block_count")
    if _rows(keys, "a.position_embd.weight") < FRAMES:
        keys.fail(f"its table of positions (a.position_embd.weight) has fewer than {FRAMES:,} rows")
    for name in ("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias", "attn_q.bias", "attn_v.bias"):
        if f"a.blk.0.{name}" not in keys.names:
            keys.fail(f"it has no tensor a.blk.0.{name}")
    if "a.blk.0.attn_k.bias" in keys.names:
        keys.fail("it has a tensor a.blk.0.attn_k.bias, and encoders of this type have none")
    if kind not in (*STACKED, "glma"):
        return
    key = "clip.audio.projector.stack_factor"
    factor = keys.number(key, most=2**13)
    expected = FRAMES // factor if kind == "glma" else -(-2 * FRAMES // factor) // (4 if kind in HALVED else 2)
    made = stacked_rows(FRAMES // 2 if kind in HALVED else FRAMES, width, factor)
    if made != expected:
        keys.fail(
            f"llama.cpp cannot join {factor} vectors of {width:,} numbers (it makes {made} rows, and ends its process "
            f"unless there are {expected}); use another model for sounds",
            key,
        )


def _check_lfm2(keys: ClipKeys, width: int) -> None:
    if width != LFM2_WIDTH:
        keys.fail(f"its encoder is {width:,} wide, and llama.cpp computes {LFM2_WIDTH}", "clip.audio.embedding_length")
    table, last = keys.shape("a.position_embd.weight"), keys.shape("mm.a.mlp.3.weight")
    if len(table) < 2 or table[1] < FRAMES or (last and last[-1] != table[0]):
        keys.fail("its tensor a.position_embd.weight is missing, too short, or of another width than its rows")


def _check_parakeet(keys: ClipKeys) -> None:
    keys.number("clip.audio.subsampling_factor", least=STEP, most=STEP)
    if keys.number("clip.audio.conv_kernel_size", most=2**10) % 2 == 0:
        keys.fail("its convolutions have an even number of places", "clip.audio.conv_kernel_size")
    for name in ("mm.a.norm_pre.weight", "mm.a.mlp.1.weight", "mm.a.mlp.2.weight"):
        if name not in keys.names:
            keys.fail(f"it has no tensor {name}")
    mels = keys.number("clip.audio.num_mel_bins", most=2**10)
    for name, count in (("a.mel_filters", mels * 257), ("a.window", 400)):
        if keys.count(name) != count:
            keys.fail(f"its tensor {name} has {keys.count(name):,} numbers instead of {count:,}")


def _check_granite_speech(keys: ClipKeys, width: int) -> None:
    context = keys.number("clip.audio.chunk_size", most=2**13)
    farthest = keys.number("clip.audio.max_pos_emb", least=context - 1, most=2**20)
    distances = _rows(keys, "a.blk.0.attn_rel_pos_emb")
    if distances and distances < farthest + context:
        keys.fail("its table of distances (a.blk.0.attn_rel_pos_emb) is too short", "clip.audio.max_pos_emb")
    keys.number("clip.audio.conv_kernel_size", most=2**10)
    window = keys.number("clip.audio.projector.window_size", most=2**13)
    queries = window // keys.number("clip.audio.projector.downsample_rate", most=window)
    heads = keys.number("clip.audio.projector.head_count", most=width)
    asked = keys.count("a.proj_query")
    if asked and asked != queries * width:
        keys.fail(f"its tensor a.proj_query has {asked:,} numbers instead of {queries * width:,}")
    if width % heads:
        keys.fail(f"{width:,} numbers cannot be shared by {heads} heads", "clip.audio.projector.head_count")


def _check_granite(keys: ClipKeys) -> None:
    most = keys.number("clip.vision.block_count", most=2**10) - 1
    for name in ("image_grid_pinpoints", "feature_layer"):
        if not keys.numbers(f"clip.vision.{name}"):
            keys.fail(f"it has no clip.vision.{name}")
    if not all(0 <= each <= most for each in keys.numbers("clip.vision.feature_layer")):
        keys.fail("it takes vectors of layers that it does not have", "clip.vision.feature_layer")
    side = keys.number("clip.vision.image_size") // keys.number("clip.vision.patch_size", most=2**16 - 1)
    window = keys.number("clip.vision.projector.window_side", most=2**12)
    if side % window:
        keys.fail(
            f"{side} patches of a side cannot be cut into windows of {window}", "clip.vision.projector.window_side"
        )
    newline, out = keys.count("v.image_newline"), keys.number("clip.vision.projection_dim")
    if newline and newline != out:
        keys.fail(f"its tensor v.image_newline has {newline:,} numbers instead of {out:,}")


def _check_pattern(keys: ClipKeys, kind: str) -> None:
    if (part := PATTERNED.get(kind)) is None:
        return
    key = f"clip.{part}.wa_pattern_mode"
    layers, said = keys.number(f"clip.{part}.block_count"), len(keys.numbers(key))
    if layers != said:
        keys.fail(f"{key} says of {said} layers what they see, and it has {layers}", key)


def _need(keys: ClipKeys, kind: str, tensor: str, *, of: tuple[str, ...], never: tuple[str, ...] = ()) -> None:
    if kind in of and tensor not in keys.names:
        keys.fail(f"it has no tensor {tensor}")
    if kind in never and tensor in keys.names:
        keys.fail(f"it has a tensor {tensor}, and encoders of this type have none")


def _rows(keys: ClipKeys, tensor: str) -> int:
    """0: it has no such tensor."""
    shape = keys.shape(tensor)
    return shape[1] if len(shape) > 1 else 0
