"""Tiny multimodal models whose answer depends on what they see or hear, computed by hand, not trained.

The kind is the projector's type, and so decides how llama.cpp places a picture (text architecture in brackets):
  mlp       one picture is 16 rows, causal [llama]        idefics3  up to 9 tiles and an overview, 16 rows each, with
  gemma3    16 rows that see each other (non-causal)                row and column tokens between them [llama]
            [llama, no sliding window]                    qwen2vl   a row per 8x8 pixels, M-RoPE [qwen2vl]
  voxtral   sound: 15 rows per 30 seconds [llama]         omni      mlp and voxtral in one projector [llama]
  deepseek4v  a row per 16x16 pixels and others around them, up to 3 of padding first, non-causal [llama]
  hunyuanvl   a row per 16x16 pixels, one at the end of each line, a first and a last; M-RoPE in which lines, columns
              and pictures count from 0 [hunyuan_vl]
At temperature 0 the answer is one word: the color of the last picture (the commonest; gemma3 and idefics3: the nearest
to its mean, and gemma3 pads to a square with black), low or high (the last sound: noise below or above about 1.7 kHz),
or nothing. All logits also depend a little on every token, pixel and position, so comparing logits finds wrong caches.
Of several media the last one counts if all are within 100 positions (idefics3: 500).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, TokenType

MediaModelKind = Literal["mlp", "gemma3", "idefics3", "qwen2vl", "voxtral", "omni", "deepseek4v", "hunyuanvl"]
KINDS: tuple[MediaModelKind, ...] = get_args(MediaModelKind)
PLANES: dict[MediaModelKind, tuple[str, tuple[int, ...]]] = {
    "qwen2vl": ("qwen2vl", (24, 4, 4, 0)),
    "hunyuanvl": ("hunyuan_vl", (24, 3, 3, 2)),
}
"""Kinds of M-RoPE: their text architecture, and how many pairs of dimensions each plane turns."""
COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Bit 0 of the index: red, bit 1: green, bit 2: blue."""
WORDS = (*COLORS, "low", "high", "nothing")

_MARKERS = (
    *"<|endoftext|> <|im_start|> <|im_end|> <start_of_image> <end_of_image>".split(),
    *"<fake_token_around_image> <global-img>".split(),
    *"<|vision_start|> <|vision_end|> <|image_pad|> [BEGIN_AUDIO] [AUDIO] <image>".split(),
    *(f"<row_{y}_col_{x}>" for y in range(1, 4) for x in range(1, 4)),
)
_AROUND = tuple(f"<｜hy_place▁holder▁no▁{number}｜>" for number in (100, 101))
"""Tokens that libmtmd puts around pictures of hunyuanvl."""
TEMPLATE = (  # a part that is not text stands as an image_pad token
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if 'text' in p %}{{ p.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}"
)
_EMBD, _FF, _CTX = 64, 96, 8192  # of the text model: one head, two layers
_ONE, _MEDIA, _WORD, _TEXT, _NOISE = 16, 17, 18, 19, 32  # its dimensions; 0 to 10 are the words, from _NOISE on random
_V_EMBD, _V_FF, _V_HEADS, _LAYERS = 32, 48, 2, 2  # of the encoders

Array = npt.NDArray[Any]
Rng = np.random.Generator
_CONSTANTS: Array = 8 * (np.eye(_V_EMBD)[3] - np.eye(_V_EMBD)[4])  # what encoders add to their inputs


class MediaModel(NamedTuple):
    """Its two files."""

    kind: MediaModelKind
    model: Path
    projector: Path


def write_media_model(kind: MediaModelKind, folder: Path, *, seed: int = 0) -> MediaModel:
    """Takes some milliseconds."""
    made = MediaModel(kind, folder / f"tiny-{kind}.gguf", folder / f"mmproj-tiny-{kind}.gguf")
    _write_text(made.model, kind, np.random.default_rng(seed))
    _write_projector(made.projector, kind, np.random.default_rng(seed + 1))
    return made


def write_random_projector(path: Path, width: int) -> Path:
    """Of the kind mlp, for any model of that width: 16 rows of numbers that depend on the picture and mean nothing."""
    rng, writer = np.random.default_rng(0), GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_clip_projector_type("mlp")
    _add_vision(writer, "mlp", rng, width)
    _finish(writer)
    return path


def _add(writer: GGUFWriter, **tensors: Array) -> None:
    """`__` in a name stands for a dot."""
    for name, array in tensors.items():
        exact = array if array.dtype == np.float16 else array.astype(np.float32)
        writer.add_tensor(name.replace("__", "."), np.ascontiguousarray(exact))


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_text(path: Path, kind: MediaModelKind, rng: Rng) -> None:
    architecture, sections = PLANES.get(kind, ("llama", ()))
    writer = GGUFWriter(path, architecture)
    writer.add_name(f"tiny-{kind}")
    writer.add_block_count(2)
    writer.add_context_length(_CTX)
    writer.add_embedding_length(_EMBD)
    writer.add_feed_forward_length(_FF)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(136 if kind == "hunyuanvl" else 1e6)  # the number of a picture turns the last dimensions
    writer.add_rope_dimension_count(_EMBD)
    if sections:
        writer.add_rope_dimension_sections(sections)
    tokens = _add_vocabulary(writer, _AROUND if kind == "hunyuanvl" else ())
    embedding, output = np.zeros((len(tokens), _EMBD)), 0.2 * rng.standard_normal((len(tokens), _EMBD))
    embedding[:, [_ONE, _TEXT]], embedding[257 : 257 + len(WORDS), _WORD] = 1, 1
    embedding[:, _NOISE:] = 0.05 * rng.standard_normal((len(tokens), _EMBD - _NOISE))
    output[:, :_NOISE] = 0
    output[257 + np.arange(11), np.arange(11)] = 2000  # what attention found
    output[257 + 10, _ONE] = 0.5  # "nothing", if it found nothing
    output[tokens.index("<|im_end|>"), _WORD] = 5000  # after a word, the end
    _add(writer, token_embd__weight=embedding, output__weight=output, output_norm__weight=np.ones(_EMBD))
    for layer in range(2):
        _add_text_layer(writer, layer, kind, rng)
    _finish(writer)


def _add_vocabulary(writer: GGUFWriter, more: tuple[str, ...]) -> list[str]:
    plain, others = {*range(33, 127), *range(161, 173), *range(174, 256)}, iter(range(256, 512))
    characters = [chr(byte if byte in plain else next(others)) for byte in range(256)]  # GPT-2's names of bytes
    markers = (*_MARKERS, *more)
    tokens = [*characters, "ĊĊ", *WORDS, *markers]  # libmtmd looks "\n\n" up for idefics3
    types = [TokenType.NORMAL] * 257 + [TokenType.USER_DEFINED] * len(WORDS) + [TokenType.CONTROL] * len(markers)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    return tokens


def _add_text_layer(writer: GGUFWriter, layer: int, kind: MediaModelKind, rng: Rng) -> None:

    def pair(dimension: int) -> list[int]:  # dimensions that RoPE turns together
        return [dimension, dimension + _EMBD // 2] if kind in PLANES else [2 * dimension, 2 * dimension + 1]

    q, k, v = np.zeros((3, _EMBD, _EMBD))
    for which in range(24, 32):  # a little of everything, and of the positions in a picture's plane
        for matrix in (q, k):
            matrix[pair(which), _NOISE:] = 0.3 * rng.standard_normal((2, _EMBD - _NOISE))
    v[_NOISE:, _NOISE:] = 0.05 * rng.standard_normal((_EMBD - _NOISE, _EMBD - _NOISE))
    if layer == 1:
        media, near = {"qwen2vl": (23, 8), "idefics3": (23, 12), "hunyuanvl": (31, 23)}.get(kind, (23, 9))
        for which, strength in ((media, 3.4), (near, 2.6)):  # media first; near ones first
            q[pair(which)[0], _ONE] = k[pair(which)[0], _MEDIA] = strength
        v[np.arange(11), np.arange(11)] = 1
    gate, up = 0.1 * rng.standard_normal((_FF, _EMBD)), 0.1 * rng.standard_normal((_FF, _EMBD))
    down = 0.02 * rng.standard_normal((_EMBD, _FF))
    down[:_NOISE] = 0
    matrices = {"attn_q": q, "attn_k": k, "attn_v": v, "attn_output": np.eye(_EMBD)}
    matrices |= {"ffn_gate": gate, "ffn_up": up, "ffn_down": down}
    norms = {name: np.ones(_EMBD) for name in ("attn_norm", "ffn_norm")}
    if kind == "hunyuanvl":  # it has norms of queries and keys, which large constants make keep the scale
        q[0, _ONE] = k[1, _ONE] = 40
        norms |= dict.fromkeys(("attn_q_norm", "attn_k_norm"), np.full(_EMBD, 40 * (_EMBD / 2) ** 0.5 / _EMBD**0.5))
    _add(writer, **{f"blk.{layer}.{name}.weight": matrix for name, matrix in {**matrices, **norms}.items()})
    if kind == "qwen2vl":
        _add(writer, **{f"blk.{layer}.attn_{name}.bias": np.zeros(_EMBD) for name in "qkv"})


def _add_encoder(writer: GGUFWriter, prefix: str, rng: Rng, *, k_bias: bool = True) -> None:
    """Layers that change only the dimensions from 8 on."""
    shapes = {f"attn_{name}": (_V_EMBD, _V_EMBD) for name in ("q", "k", "v", "out")}
    shapes |= {"ffn_up": (_V_FF, _V_EMBD), "ffn_down": (_V_EMBD, _V_FF)}
    for layer in range(_LAYERS):
        at = f"{prefix}.blk.{layer}."
        for norm in ("ln1", "ln2"):
            _add(writer, **{f"{at}{norm}.weight": np.ones(_V_EMBD), f"{at}{norm}.bias": np.zeros(_V_EMBD)})
        for name, shape in shapes.items():
            is_last = name in ("attn_out", "ffn_down")
            matrix = (0.03 if is_last else 0.2) * rng.standard_normal(shape)
            matrix[:8] *= not is_last
            _add(writer, **{f"{at}{name}.weight": matrix})
            if name != "attn_k" or k_bias:
                _add(writer, **{f"{at}{name}.bias": np.zeros(shape[0])})


def _corners(scale: float) -> Array:
    """Rows that score the eight colors by r, g, b in -1 to 1; the right corner of the cube gets `scale`."""
    return np.array([[scale / 3 * (1 if color >> bit & 1 else -1) for bit in range(3)] for color in range(8)])


def _add_mlp(
    writer: GGUFWriter, names: tuple[str, str], hidden: Array, bias: Array | None, rng: Rng, shape: tuple[int, ...] = ()
) -> None:
    """A two-layer projector: `hidden` scores the words (rows 0 to 9), the second layer spreads them, and some noise.

    `shape`: of a first layer that takes the numbers of all patches channel by channel.
    """
    inputs = hidden.shape[1]
    noise = 0.5 * rng.standard_normal((21, inputs)) / inputs**0.5
    noise[20] = noise[:, 3::_V_EMBD] = noise[:, 4::_V_EMBD] = 0
    first, second = np.concatenate([hidden, noise]), np.zeros((_EMBD, 32))
    second[np.arange(11), np.arange(11)] = 0.025
    second[_NOISE:, 11:31] = 0.01 * rng.standard_normal((_EMBD - _NOISE, 20))
    if bias is None:  # this projector has none: its input has a constant, row 10 of `hidden`
        first[31], first[10], second[[_ONE, _MEDIA], 31] = hidden[10], 0, 0.25
    else:
        _add(writer, **{f"{names[0]}.bias": np.concatenate([bias, np.zeros(21)])})
        _add(writer, **{f"{names[1]}.bias": np.eye(_EMBD)[_ONE] + np.eye(_EMBD)[_MEDIA]})
    if shape:
        first = first.reshape(32, -1, _V_EMBD).transpose(0, 2, 1).reshape(shape)
    _add(writer, **{f"{names[0]}.weight": first, f"{names[1]}.weight": second})


def _add_vision(writer: GGUFWriter, kind: MediaModelKind, rng: Rng, width: int = _EMBD) -> None:
    """`width`: of the text model, of which a random projector may have any."""
    patch, size = (8, 32) if kind in ("mlp", "deepseek4v", "hunyuanvl") else (4, 32)
    writer.add_clip_has_vision_encoder(True)
    writer.add_vision_projection_dim(width)
    writer.add_vision_image_size(size)
    writer.add_vision_patch_size(patch)
    writer.add_vision_embedding_length(_V_EMBD)
    writer.add_vision_feed_forward_length(_V_FF)
    writer.add_vision_block_count(_LAYERS)
    writer.add_vision_head_count(_V_HEADS)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_use_gelu(True)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    _add_encoder(writer, "v", rng)
    convolution = 0.02 * rng.standard_normal((_V_EMBD, 3, patch, patch))
    convolution[:8] = 0
    convolution[[0, 1, 2], [0, 1, 2]] = 1 / patch**2
    if kind == "qwen2vl":
        _add(writer, **{f"v.patch_embd.weight{end}": convolution / 2 for end in ("", ".1")})
    else:
        _add(writer, v__patch_embd__weight=convolution)
    if kind not in ("qwen2vl", "deepseek4v"):
        _add(writer, v__position_embd__weight=np.zeros(((size // patch) ** 2, _V_EMBD)))
    if width != _EMBD:
        for name, shape in (("mm.0", (32, _V_EMBD)), ("mm.2", (width, 32))):
            _add(writer, **{f"{name}.weight": 0.3 * rng.standard_normal(shape), f"{name}.bias": np.zeros(shape[0])})
        return
    if kind in ("mlp", "qwen2vl", "deepseek4v", "hunyuanvl"):
        parts = 1 if kind == "mlp" else 4
        hidden = np.zeros((11, parts, _V_EMBD))
        hidden[:8, :, :3] = 3 * _corners(4)[:, None] / parts
        bias = np.array([-8.0] * 8 + [0] * 3)  # the right corner scores 12 - 8, the next one 4 - 8
        if kind in ("deepseek4v", "hunyuanvl"):
            _add_placed(writer, kind, hidden.reshape(11, -1), bias, rng)
        else:
            _add_mlp(writer, ("mm.0", "mm.2"), hidden.reshape(11, -1), bias, rng)
        return
    # Two large constants make the last layer norm keep the scale, and give the constant outputs.
    _add(writer, v__patch_embd__bias=_CONSTANTS, v__post_ln__weight=np.full(_V_EMBD, 2.0))
    _add(writer, v__post_ln__bias=np.zeros(_V_EMBD))
    writer.add_vision_projector_scale_factor(2)
    project = np.zeros((_EMBD, _V_EMBD))
    project[:8, :3], project[[_ONE, _MEDIA], 3] = _corners(0.1), 1 / 8
    project[_NOISE:, 8:] = 0.02 * rng.standard_normal((_EMBD - _NOISE, _V_EMBD - 8))
    if kind == "gemma3":
        _add(writer, mm__soft_emb_norm__weight=np.full(_V_EMBD, 4.0), mm__input_projection__weight=project.T)
        return
    writer.add_uint32("clip.vision.preproc_image_size", 3 * size)
    _add(writer, mm__model__fc__weight=np.tile(project / 4, 4))


def _add_placed(writer: GGUFWriter, kind: MediaModelKind, hidden: Array, bias: Array, rng: Rng) -> None:
    """The projectors whose pictures depend on their place, with rows of their own around those of the picture."""
    around = np.zeros((4, _EMBD))
    around[:, [_ONE, _TEXT]], around[:, _NOISE:] = 1, 0.05 * rng.standard_normal((4, _EMBD - _NOISE))
    writer.add_uint32("clip.vision.image_min_pixels", 256)
    if kind == "deepseek4v":
        writer.add_vision_projector_scale_factor(2)
        _add_mlp(writer, ("mm.1", "mm.2"), hidden, bias, rng, (32, 4 * _V_EMBD))
        _add(writer, v__token_embd__img_start=around[0], v__token_embd__img_end=around[1])
        _add(writer, v__image_newline=around[2], v__token_embd__img_pad=around[3])
        return
    writer.add_uint32("clip.vision.image_max_pixels", 512**2)
    writer.add_uint32("clip.vision.spatial_merge_size", 2)
    _add_mlp(writer, ("mm.0", "mm.model.fc"), hidden, bias, rng, (32, _V_EMBD, 2, 2))
    _add(writer, **{"mm.2.weight": np.eye(32).reshape(32, 32, 1, 1), "mm.2.bias": np.zeros(32)})
    line_end = np.pad(around[2, _NOISE + 11 :], (11, 0))  # before the second layer: no color
    _add(writer, mm__image_begin=around[0], mm__image_end=around[1], v__image_newline=line_end)
    # Two constants before either norm make it keep the scale.
    _add(writer, v__patch_embd__bias=_CONSTANTS, mm__pre_norm__weight=np.full(_V_EMBD, 2.0))
    _add(writer, mm__post_norm__weight=np.full(_EMBD, (2 / _EMBD) ** 0.5))


def _add_audio(writer: GGUFWriter, rng: Rng, mels: int = 80, stack: int = 50) -> None:
    writer.add_clip_has_audio_encoder(True)
    writer.add_audio_projection_dim(_EMBD)
    writer.add_audio_embedding_length(_V_EMBD)
    writer.add_audio_feed_forward_length(_V_FF)
    writer.add_audio_block_count(_LAYERS)
    writer.add_audio_head_count(_V_HEADS)
    writer.add_audio_attention_layernorm_eps(1e-6)
    writer.add_audio_num_mel_bins(mels)
    writer.add_audio_stack_factor(stack)
    first, second = 0.02 * rng.standard_normal((_V_EMBD, mels, 3)), 0.1 * rng.standard_normal((_V_EMBD, _V_EMBD, 3))
    first[:8] = second[:8] = 0
    first[0, : mels // 2, 1] = first[1, mels // 2 :, 1] = 8 / mels  # low and high bins
    second[[0, 1], [0, 1], 1] = 1
    for number, kernel in ((1, first), (2, second)):
        _add(writer, **{f"a.conv1d.{number}.weight": kernel.astype(np.float16)})
        _add(writer, **{f"a.conv1d.{number}.bias": np.ones((_V_EMBD, 1))})
    _add(writer, a__position_embd__weight=np.tile(_CONSTANTS, (1500, 1)))
    _add(writer, a__post_ln__weight=np.full(_V_EMBD, 2.0), a__post_ln__bias=np.zeros(_V_EMBD))
    _add_encoder(writer, "a", rng, k_bias=False)
    hidden = np.zeros((11, stack, _V_EMBD))
    hidden[[8, 9], :, [0, 1]], hidden[[8, 9], :, [1, 0]] = 6 / stack, -6 / stack
    hidden[10, :, 3] = 0.5 / stack  # times the constant, 8
    _add_mlp(writer, ("mm.a.mlp.1", "mm.a.mlp.2"), hidden.reshape(11, -1), None, rng)


def _write_projector(path: Path, kind: MediaModelKind, rng: Rng) -> None:
    writer = GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_name(f"tiny-{kind}")
    if kind == "omni":
        writer.add_string("clip.vision.projector_type", "mlp")
        writer.add_string("clip.audio.projector_type", "voxtral")
    else:
        writer.add_clip_projector_type("qwen2vl_merger" if kind == "qwen2vl" else kind)
    if kind != "voxtral":
        _add_vision(writer, "mlp" if kind == "omni" else kind, rng)
    if kind in ("voxtral", "omni"):
        _add_audio(writer, rng)
    _finish(writer)
