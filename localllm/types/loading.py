"""The settings for loading a model: those that a user gives and a worker gets in the same form.

Each is declared here and nowhere else: the user's settings (`settings.load_settings`) and the worker's options
(`types.load_options`) inherit them. Knows neither where values come from nor their effect on a plan.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import msgspec

from localllm.types import (
    CpuMoe,
    FlashAttn,
    GpuLayers,
    KvType,
    Pooling,
    ProjectorUse,
    Repack,
    RopeScaling,
    ThinkingDefault,
)
from localllm.types.declared import MAX_COUNT, MAX_MB, Setting
from localllm.types.devices import Numa, Split

model = partial(Setting, group="Model", who="clients")
device = partial(Setting, group="CPU and GPU", who="clients")
speed = partial(Setting, group="Speed", who="clients")
memory = partial(Setting, group="Memory", who="clients")
media = partial(Setting, group="Pictures and sound", who="clients")

MIN_CTX, MAX_CTX = 8, 2**24
SLOTS = model("Concurrent answers", "N", 1, 256, affects_speed=False)
KvDiskMb = Annotated[
    int,
    Setting(
        "Disk space to keep the KV cache of chats across restarts", "MB", 0, 2**30, group="Memory", affects_speed=False,
        more="For conversations of all models, so that they survive an unload or a restart, and for slots saved by "
        "clients, which take precedence; 0: none. They are stored unencrypted in the data directory, readable by its "
        "owner only.",
    ),
]  # fmt: skip


class Loading(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, with their defaults."""

    # fmt: off
    ctx: Annotated[int | None, model(
        "Context per slot", "TOKENS", MIN_CTX, MAX_CTX, default="the model's, as memory allows", affects_speed=False,
        more="By default the trained context, at most 8,192, or what there is memory for."
    )] = None
    slots: Annotated[int | None, SLOTS] = None
    threads: Annotated[int | None, device(
        "Maximum CPU threads", "N", 1, 1024, default="physical cores",
        more="Fewer are used while other programs need the cores, and where fewer are as fast. With flash attention, "
        "beyond 500 tokens of context, rounding depends on their number; 1 avoids that."
    )] = None
    threads_batch: Annotated[int | None, device(
        "Maximum CPU threads for prefill", "N", 1, 1024, default="--threads"
    )] = None
    ubatch: Annotated[int | None, speed(
        "Prompt tokens computed per batch", "TOKENS", 32, 8192, default="512",
        more="llama.cpp's ubatch. More may be faster and takes memory; `localllm tune` finds out."
    )] = None
    gpu_layers: Annotated[GpuLayers, device(
        "Layers on the GPU", "auto|N|all", 0, MAX_COUNT,
        more="auto: as many as fit. A number or all is binding: a load fails rather than using fewer."
    )] = "auto"
    n_cpu_moe: Annotated[CpuMoe, device(
        "Layers whose experts stay on the CPU", "auto|N|all", 0, MAX_COUNT,
        more="For a mixture of experts, counted from the first layer. auto: as many as do not fit on GPUs beside all "
        "other parts of the layers. `--cpu-moe` means all."
    )] = "auto"
    moe_cache_mb: Annotated[int, device(
        "GPU memory for experts in use of layers whose experts stay on the CPU", "MB", 0, MAX_MB,
        more="llama.cpp's expert cache (0.6 or newer), all GPUs together. It is taken before experts are placed; "
        "whether it is worth that depends on the GPU's bus. Nothing is taken if no experts stay on the CPU."
    )] = 0
    split: Annotated[Split, device(
        "How to split a model over devices",
        more="By layers, by rows of matrices, by tensors in parallel, or not at all."
    )] = "layer"
    main_gpu: Annotated[str | None, device(
        "Device for --split none, and for the unsplit parts of row", "N|NAME",
        more="Its name, or its index among the devices."
    )] = None
    mmap: Annotated[bool | None, memory("Memory-map the file, or read it", default="map where devices can")] = None
    mlock: Annotated[bool, memory(
        "Lock the weights in RAM; fails if the system forbids it",
        more="They are never swapped out, nor repacked for the CPU."
    )] = False
    direct_io: Annotated[bool, memory(
        "Read the file bypassing the page cache (Linux)", more="The cache remains available to other programs."
    )] = False
    numa: Annotated[Numa | None, device(
        "Thread placement on NUMA machines", more="By default as the system does it."
    )] = None
    kv_ram_mb: Annotated[int, memory(
        "RAM for the KV cache of idle chats", "MB", 0, 2**24, affects_speed=False,
        more="For conversations evicted from their slots, and for checkpoints; 0: none."
    )] = 2048
    lora_mb: Annotated[int, memory(
        "Memory for loaded LoRA adapters", "MB", 1, 2**24, affects_speed=False,
        more="Those that were not used for longest are freed beyond this. A request whose adapters are larger together "
        "is refused."
    )] = 1024
    checkpoints: Annotated[int, memory(
        "Checkpoints per chat, for models that cannot roll back tokens", "N", 0, 256, affects_speed=False,
        more="Recurrent models and sliding windows return to checkpoints instead of computing a prompt again; 0: none."
    )] = 8
    kv: Annotated[Literal["auto", "partitioned", "unified"], memory(
        "One KV cache per slot, or one for all", more="auto: the faster one, as measured."
    )] = "auto"
    kv_type: Annotated[KvType, memory(
        "Type of the KV cache", more="Smaller types are less precise, and need flash attention."
    )] = "f16"
    flash_attn: Annotated[FlashAttn, speed(
        "Flash attention",
        more="auto: if it is faster, as measured at the first load. Off needs memory for all scores of a step; "
        "quantized and unified KV caches always use it."
    )] = "auto"
    repack: Annotated[Repack, device(
        "Repack weights for this CPU",
        more="auto: if possible, and without mlock. Off is slower on most CPUs, but needs no second copy."
    )] = "auto"
    kv_cells: Annotated[int | None, memory(
        "Size of a unified KV cache, shared by all slots", "TOKENS", 256, 2**28, affects_speed=False,
        more="By default ctx for each."
    )] = None
    context_shift: Annotated[bool, model(
        "When the context is full, drop the oldest tokens and continue", affects_speed=False,
        more="The answer reports it in `usage.shifted_tokens`."
    )] = False
    max_step_ms: Annotated[int, speed(
        "Longest uninterruptible step, so the longest others may wait", "MS", 10, 60_000, affects_speed=False,
        more="Bounds the wait of a cancellation or a new request. On the CPU, prompt steps can be interrupted while "
        "no answer streams (except with recurrent and hybrid models); they take as long as their batch."
    )] = 300
    prefill_step_ms: Annotated[int, speed(
        "Longest step with prefill while answers stream", "MS", 10, 60_000, affects_speed=False,
        more="Lower makes streams smoother and prompts slower."
    )] = 100
    stream_interval_ms: Annotated[int, speed(
        "Shortest time between parts of a stream", "MS", 0, 1000, affects_speed=False,
        more="Tokens of fast models come several at once, which leaves the CPU to the model. The first and the last "
        "part are sent immediately; 0 sends every token by itself."
    )] = 33
    pooling: Annotated[Pooling | None, model(
        "How token embeddings are pooled", default="the model's", affects_speed=False,
        more="Without one of its own, mean for encoders and last for others."
    )] = None
    embedding_ctx: Annotated[int | None, model(
        "Longest text to embed", "TOKENS", 8, 2**20, default="the model's, at most 2048", affects_speed=False
    )] = None
    chat_template: Annotated[str | None, model(
        "Chat template: Jinja file, or chatml, command-r, gemma, llama2, llama3, phi3", "FILE|NAME",
        default="the model's", who="names", affects_speed=False, more="Or the text of a template."
    )] = None
    thinking: Annotated[ThinkingDefault, model(
        "Thinking, for requests that do not set it", default="auto, by the template", affects_speed=False
    )] = "auto"
    speculation: Annotated[Literal["auto", "off"], model(
        "Speculative decoding",
        more="Tokens are guessed and verified several at a time where that is faster; the answer is the same."
    )] = "auto"
    mtp: Annotated[Literal["auto", "off"], model(
        "Guesses by the model's own NextN layers, if it has any",
        more="Multi-token prediction; auto: if llama.cpp supports them."
    )] = "auto"
    draft: Annotated[str | None, model(
        "Draft model: smaller, with the same vocabulary", "MODEL|auto", default="none", who="names",
        more="Also an EAGLE-3 or DFlash draft, or a Gemma 4 assistant: its name or file. auto: the catalog's choice "
        "for the model, if it is on this machine."
    )] = None
    rope_scaling: Annotated[RopeScaling | None, model(
        "RoPE scaling for a longer context", default="the model's", more="Contexts for embedding are never scaled."
    )] = None
    rope_scale: Annotated[float | None, model(
        "Context as a multiple of the trained one, with --rope-scaling", "X", 1.0, 256.0
    )] = None
    yarn_orig_ctx: Annotated[int | None, model(
        "Trained context for YaRN", "TOKENS", MIN_CTX, MAX_CTX, default="the model's",
        more="In tokens, before any scaling."
    )] = None
    mmproj: Annotated[str | None, media(
        "Projector (mmproj) file, for pictures and sound", "FILE", default="the model's", who="machine",
        more="By default the one pulled with the model, or the only one beside its file."
    )] = None
    projector: Annotated[ProjectorUse, media(
        "Where pictures and sound are encoded, or off: text only",
        more="auto: on a GPU that the model uses if there is room, else on the CPU. Loaded with the first picture."
    )] = "auto"
    image_min_tokens: Annotated[int | None, media(
        "Fewest tokens of a picture, for models that read any size", "TOKENS", 1, 2**16, default="the model's",
        affects_speed=False, more="More show details of small pictures; Qwen-VL needs 1024 to point at things."
    )] = None
    image_max_tokens: Annotated[int | None, media(
        "Most tokens of a picture, for models that read any size", "TOKENS", 1, 2**16, default="the model's",
        affects_speed=False, more="Larger pictures are made smaller first. Fewer are faster and leave more context."
    )] = None
    media_ram_mb: Annotated[int, media(
        "RAM for encoded pictures and sounds", "MB", 0, 2**24, affects_speed=False,
        more="What is seen or heard again, in any chat, is not encoded again; 0: none is kept."
    )] = 256
    media_disk_mb: Annotated[int, media(
        "Disk space for encoded pictures and sounds", "MB", 0, 2**30, affects_speed=False,
        more="Of all models, so that a restart encodes nothing again; 0, or no disk for the KV cache: none."
    )] = 1024
    media_idle_s: Annotated[float, media(
        "Time after which an idle projector's memory is freed", "S", 0, 10**7, affects_speed=False,
        more="It is loaded again for the next new picture or sound."
    )] = 600.0
    max_megapixels: Annotated[float, media(
        "Largest picture that is decoded, in millions of pixels", "N", 0.001, 178, affects_speed=False,
        more="Checked in its header; a larger one is refused."
    )] = 64.0
    max_media_s: Annotated[float, media(
        "Longest sound or video that is decoded", "S", 0.1, 36000, affects_speed=False, more="A longer one is refused."
    )] = 1800.0
    video_fps: Annotated[float, media(
        "Frames that are read of a second of video", "N", 0.01, 60, affects_speed=False,
        more="Each is a picture to the model, with its time before it. Needs the package av."
    )] = 1.0
    max_video_frames: Annotated[int, media(
        "Most frames that are read of a video", "N", 1, 1024, affects_speed=False,
        more="Of a longer one, they are spread evenly over its length."
    )] = 32
    max_video_megapixels: Annotated[float, media(
        "Pixels of all frames of a video together, in millions", "N", 1, 60, affects_speed=False,
        more="Larger frames are reduced to their share."
    )] = 32.0
    media_decoders: Annotated[int, media(
        "Files of pictures and sounds that are decoded at the same time", "N", 1, 64, affects_speed=False,
        more="Each in a process of its own, within the next two limits."
    )] = 2
    media_decode_s: Annotated[float, media(
        "Most CPU time to decode a picture, sound or video", "S", 1, 36000, affects_speed=False,
        more="Three times as much may pass. Of a video that takes longer than half of it, other frames are read."
    )] = 20.0
    media_decode_mb: Annotated[int, media(
        "Most memory to decode a picture, sound or video", "MB", 512, 2**20, affects_speed=False,
        more="A file that needs more is refused. Pictures of more than 64 megapixels need more."
    )] = 1536
    media_files_mb: Annotated[int, media(
        "RAM for files and decoded pictures and sounds that wait", "MB", 16, 2**20, affects_speed=False,
        more="A file that finds no room is sent or decoded again when it is its turn to be encoded."
    )] = 256
    media_call_s: Annotated[float, media(
        "Longest encoding of several tiles together", "S", 0, 3600, affects_speed=False,
        more="Of a picture that is cut into equal tiles, if its type of projector encodes several at once, which is "
        "faster. A cancellation or another picture waits for it; 0: one tile at a time."
    )] = 2.0
    media_timeout_s: Annotated[float, media(
        "Timeout for encoding one tile or sound", "S", 1, 10**7, affects_speed=False,
        more="An encoder that takes longer is ended, and the request fails."
    )] = 900.0
    media_refused_s: Annotated[float, media(
        "How long a file that ended the encoder is refused", "S", 0, 10**7, affects_speed=False,
        more="So that a client that sends it again does not end it each time."
    )] = 600.0
    # fmt: on
