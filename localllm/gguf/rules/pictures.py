"""How many rows a picture becomes, by the projector's type: tools/mtmd/clip.cpp (`load_hparams`,
`clip_n_output_tokens`) and mtmd-image.cpp (how each type scales and cuts a picture).

Counts are for the largest picture that libmtmd makes of any, which it scales down. Knows nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

from localllm.gguf.rules.clip_keys import MAX_IMAGE_SIZE, ClipKeys


class PictureRows(NamedTuple):
    """What the largest picture becomes."""

    rows: int
    """In all."""
    span_rows: int
    """In its largest piece."""
    span_patches: int
    """Patches of that piece, which the encoder computes together."""


class _File(NamedTuple):
    keys: ClipKeys
    size: int
    patch: int
    most_rows: int | None

    @property
    def patches(self) -> int:
        """Of one tile."""
        return (self.size // self.patch) ** 2

    def number(self, key: str, default: int, most: int = 256) -> int:
        return self.keys.number(f"clip.vision.{key}", default, most=most)


class Scale(NamedTuple):
    """How a type merges patches, and what it takes."""

    merge: int
    """Patches of a side that become one row, if the file does not say."""
    key: str = ""
    """Key that says so."""
    most: int | None = None
    """The most rows of a picture of any size; None: from `clip.vision.image_max_pixels`."""


MAX_TILES = 256
_FACTOR, _SPATIAL = "clip.vision.projector.scale_factor", "clip.vision.spatial_merge_size"
ANY_SIZE = {
    "deepseek4v": Scale(1, _FACTOR, 384),
    "dots3note_v": Scale(1, _SPATIAL),
    "dots_ocr": Scale(1, _FACTOR),
    "exaone4_5": Scale(2, _SPATIAL),
    "gemma4uv": Scale(3, _FACTOR, 1120),
    "gemma4v": Scale(3, _FACTOR, 1120),
    "glm4v": Scale(2, _SPATIAL, 4096),
    "glm5v": Scale(2, _SPATIAL),
    "hunyuanvl": Scale(2, _SPATIAL, 16384),
    "kimik25": Scale(1, _FACTOR, 4096),
    "kimivl": Scale(1, _FACTOR, 1024),
    "ling3vl": Scale(2, _SPATIAL, 4096),
    "mimovl": Scale(2, _SPATIAL),
    "minimax_m3": Scale(2, _SPATIAL, 576),
    "muse-glimmer": Scale(2, _SPATIAL, 4096),
    "paddleocr": Scale(2),
    "phi4": Scale(1),
    "pixtral": Scale(1, _SPATIAL, 1024),
    "qwen2.5o": Scale(2, _SPATIAL, 4096),
    "qwen2.5vl_merger": Scale(2, _SPATIAL, 4096),
    "qwen2vl_merger": Scale(2, _SPATIAL, 4096),
    "qwen3vl_merger": Scale(2, _SPATIAL, 4096),
    "youtuvl": Scale(2, _SPATIAL, 62500),
}
"""Types that scale a picture to a size of their choice, and encode it whole."""
ONE_SIZE = {
    "cogvlm": Scale(1),
    "gemma3": Scale(4, _FACTOR),
    "gemma3nv": Scale(1, _FACTOR),
    "janus_pro": Scale(1),
    "nemotron_v2_vl": Scale(1, _FACTOR),
}
"""Types that scale every picture to `clip.vision.image_size`."""
FIXED = ("hunyuanvl", "kimik25")
"""Types whose file may set the largest picture; the user cannot, then."""
PINPOINTS = ("adapter", "ldp", "ldpv2", "mlp")
"""Types of LLaVA, which cut a picture into tiles if the file lists sizes for that."""
LINE_ENDS = ("hunyuanvl", "pixtral")
"""Types with a row at the end of each line of rows."""
NON_CAUSAL = ("deepseek4v", "gemma3", "gemma4uv", "gemma4v")
"""Types whose rows see each other: `mtmd_decode_use_non_causal`."""
CAUSAL_WIDTHS = (1536, 2560)
"""Widths of text models with which gemma4v's do not."""
BATCHED = ("deepseekocr", "deepseekocr2", "gemma4v", "internvl")
"""Types that may encode several equal pieces together: `support_batch` in models/models.h."""


def picture_rows(keys: ClipKeys, kind: str, most_rows: int | None) -> PictureRows:
    """What the largest picture becomes; `most_rows`: the user's limit.

    Raises `InvalidModelFile` for a type or numbers that libmtmd cannot use.
    """
    size = keys.number("clip.vision.image_size", least=0, most=MAX_IMAGE_SIZE)
    patch = keys.number("clip.vision.patch_size", most=2**16 - 1)
    if kind in ANY_SIZE:
        return _any_size(keys, kind, patch, most_rows)
    side = size // patch
    if kind in ONE_SIZE:
        rule = ONE_SIZE[kind]
        merge = _merge(keys, rule)
        rows = side if kind == "gemma3nv" else side * side // merge**2 + 2 * (kind == "cogvlm")
        return _pieces(keys, [rows], side * side)
    tiles = _TILES.get(kind)
    if tiles is None:
        keys.fail(f"its projector is of the unknown type {kind[:60]!r}")
    return tiles(_File(keys, size, patch, most_rows))


def _any_size(keys: ClipKeys, kind: str, patch: int, most_rows: int | None) -> PictureRows:
    rule = ANY_SIZE[kind]
    merge, most = _merge(keys, rule), rule.most
    pixels = keys.number("clip.vision.image_max_pixels", 0, least=0)
    is_fixed = bool(pixels) and kind in FIXED
    if most is None or is_fixed:
        if not pixels:
            keys.fail("it has no clip.vision.image_max_pixels")
        most = pixels // (patch * merge) ** 2
    if most_rows is not None and not is_fixed and (rule.most is not None or kind == "glm5v"):
        most = most_rows
    most = max(most, 1)
    rows = most + (isqrt(most) + 2 if kind in LINE_ENDS else 0)
    return PictureRows(rows, rows, most * (1 if kind == "gemma4uv" else merge**2))


def _merge(keys: ClipKeys, rule: Scale) -> int:
    return keys.number(rule.key, rule.merge, most=2**16 - 1) if rule.key else rule.merge


def _pieces(keys: ClipKeys, pieces: list[int], patches: int) -> PictureRows:
    """`pieces`: rows of each; `patches`: those of the largest."""
    if not patches or not max(pieces):
        keys.fail("its pictures are smaller than one patch", "clip.vision.image_size")
    return PictureRows(sum(pieces), max(pieces), patches)


def _pinpoints(file: _File) -> PictureRows:
    kind = file.keys.text("clip.projector_type") or file.keys.text("clip.vision.projector_type")
    rows = file.patches if kind == "mlp" else file.patches // 4 + 2 * (kind == "adapter")
    return _pieces(file.keys, [rows] * (1 + _most_tiles(file)), file.patches)


def _most_tiles(file: _File) -> int:
    key = "clip.vision.image_grid_pinpoints"
    sizes = file.keys.numbers(key)
    if len(sizes) % 2:
        file.keys.fail("an odd number of sizes", key)
    pairs = zip(sizes[::2], sizes[1::2], strict=True)
    most = max(((width // file.size) * (height // file.size) for width, height in pairs), default=0) if file.size else 0
    if most > MAX_TILES:
        file.keys.fail(f"{key} makes {most:,} tiles; at most {MAX_TILES} are allowed", key)
    return most


def _resampler(file: _File) -> PictureRows:
    version = file.keys.number("clip.minicpmv_version", 2, least=0)
    rows = file.keys.number("clip.minicpmv_query_num", 0, least=0, most=2**12) or (64 if version > 2 else 96)
    return _pieces(file.keys, [rows] * 10, file.patches)


def _of_tiles(number: int, merge: int) -> Callable[[_File], PictureRows]:
    """At most `number` tiles of the trained size, and the whole picture."""

    def tiles(file: _File) -> PictureRows:
        rows = file.patches // _merge(file.keys, Scale(merge, _FACTOR)) ** 2
        return _pieces(file.keys, [rows] * (1 + file.number("preproc_max_tiles", number, MAX_TILES)), file.patches)

    return tiles


def _idefics3(file: _File) -> PictureRows:
    merge = _merge(file.keys, Scale(1, _FACTOR))
    edge = file.keys.number("clip.vision.preproc_image_size", 0, least=0, most=MAX_IMAGE_SIZE)
    tiles = (-(-edge // file.size) if file.size else 1) ** 2 or 16
    if file.most_rows is not None and file.size:
        tiles = min(tiles, max(1, file.most_rows * (file.patch * merge) ** 2 // file.size**2))
    return _pieces(file.keys, [file.patches // merge**2] * (1 + tiles), file.patches)


def _lightonocr(file: _File) -> PictureRows:
    merge = _merge(file.keys, Scale(1, _SPATIAL))
    side = file.number("preproc_image_size", file.size, MAX_IMAGE_SIZE) // (file.patch * merge)
    rows = min(side * side, file.most_rows or side * side)
    return _pieces(file.keys, [rows + isqrt(rows)], rows * merge**2)


def _lfm2(file: _File) -> PictureRows:
    merge = _merge(file.keys, Scale(1, _FACTOR))
    tile, whole = (512 // (file.patch * merge)) ** 2, file.most_rows or 256
    return _pieces(file.keys, [tile] * 10 + [whole], max(tile, whole) * merge**2)


def _step3vl(file: _File) -> PictureRows:
    side = file.patch * _merge(file.keys, Scale(4, _FACTOR))
    across = -(-file.number("preproc_image_size", 3024, MAX_IMAGE_SIZE) // 504)
    return _pieces(file.keys, [(504 // side) ** 2] * across**2 + [(file.size // side) ** 2], file.patches)


def _deepseekocr(file: _File) -> PictureRows:
    tiles = file.number("preproc_max_tiles", 9)
    line = (10 * tiles + 1) * 10  # a line of tiles is one piece
    return _pieces(file.keys, [16 * 17 + 1, line], max(64 * 64, 40 * 40 * tiles))


def _deepseekocr2(file: _File) -> PictureRows:
    return _pieces(file.keys, [257] + [144] * file.number("preproc_max_tiles", 6), 64 * 64)


def _granite4(file: _File) -> PictureRows:
    window, query = (
        file.keys.number(f"clip.vision.projector.{which}_side", most=2**12) for which in ("window", "query")
    )
    side, tiles = query * (file.size // file.patch // window), _most_tiles(file)
    rows = side**2 + (tiles * side**2 + tiles * side if tiles else 0)
    return _pieces(file.keys, [rows], (1 + tiles) * file.patches)


def _yasa2(file: _File) -> PictureRows:
    return _pieces(file.keys, [64], file.patches)


_TILES: dict[str, Callable[[_File], PictureRows]] = {
    **dict.fromkeys(PINPOINTS, _pinpoints),
    "deepseekocr": _deepseekocr,
    "deepseekocr2": _deepseekocr2,
    "granite4_vision": _granite4,
    "idefics3": _idefics3,
    "internvl": _of_tiles(12, 1),
    "lfm2": _lfm2,
    "lightonocr": _lightonocr,
    "llama4": _of_tiles(9, 1),
    "minicpmv4_6": _of_tiles(9, 4),
    "resampler": _resampler,
    "step3vl": _step3vl,
    "yasa2": _yasa2,
}
TYPES = frozenset((*ANY_SIZE, *ONE_SIZE, *_TILES))
"""All that are known."""
