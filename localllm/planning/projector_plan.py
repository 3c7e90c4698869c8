"""A projector and its text model: whether they fit each other, what the encoder needs, where it goes.

All of it is reserved when the model is loaded, and used from the first picture or sound on. Pure functions of headers,
options and devices. Knows nothing of files and processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import DeviceUnavailable
from localllm.gguf.rules.pictures import CAUSAL_WIDTHS
from localllm.planning.device_choice import gpus_of
from localllm.planning.placing import CPU, DRIVER_BYTES
from localllm.types import DeviceInfo, ModelInfo, ProjectorInfo
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare, ProjectorLoad

PROCESS_BYTES = 128 * 2**20
"""Memory of the processes that decode (35 MB) and encode: Python, NumPy, the library (51 MB), and the text model's
vocabulary (42 MB of 260,000 tokens)."""
GPU_SHARE = 1 / 2
"""Most of a GPU's free memory that `auto` takes for a projector: without a GPU, layers of the model are slower at every
token, the encoder only at pictures."""


class Projector(NamedTuple):
    """A projector on disk, which fits its text model."""

    path: Path
    info: ProjectorInfo


class Companion(NamedTuple):
    """What a model has besides its own file to read pictures and sounds."""

    projector: Projector | None = None
    no_media: str = ""
    """Why there is none, and what to type: `LoadedModel.no_media`."""
    is_unused: bool = False
    """Whether there is one that is not used."""


NO_COMPANION = Companion()


def misfit(info: ModelInfo, projector: ProjectorInfo) -> str:
    """Why the projector is not for this model: a phrase after its name; empty: it may be."""
    if not info.causal:
        return "reads pictures or sounds for a model that writes text, and this one embeds"
    width = info.input_length
    if projector.width and width and projector.width != width:
        beside = f" with its {info.deepstack_layers} deepstack layers" if info.deepstack_layers else ""
        return f"makes vectors of {projector.width:,} numbers, and this model{beside} reads {width:,}"
    return ""


def fitted(info: ModelInfo, projector: ProjectorInfo) -> ProjectorInfo:
    """As it computes with this model: of Gemma 4's smallest two, the rows of a picture do not see each other."""
    vision = projector.vision
    if vision is not None and vision.type == "gemma4v" and info.embedding_length in CAUSAL_WIDTHS:
        vision = msgspec.structs.replace(vision, is_causal=True)
    return msgspec.structs.replace(projector, vision=vision, width=projector.width or info.input_length or 0)


def with_rows(options: LoadOptions, projector: Projector | None) -> LoadOptions:
    """The options with a ubatch for those rows of a picture that see each other."""
    return options if projector is None else msgspec.structs.replace(options, media_rows=projector.info.ubatch_rows)


def encoder_bytes(projector: Projector) -> int:
    """Weights and compute buffers, wherever they are."""
    return projector.info.size_bytes + projector.info.compute_bytes


def need_of(info: ProjectorInfo) -> int:
    """Main memory of a projector that is not here yet, without the rows that are kept."""
    return info.size_bytes + info.compute_bytes + PROCESS_BYTES


def host_bytes(options: LoadOptions) -> int:
    """Main memory beside them: the encoder's process, and encoded rows that are kept."""
    return PROCESS_BYTES + options.media_ram_mb * 10**6


def projector_bytes(projector: Projector | None, options: LoadOptions) -> int:
    """Main memory that it adds if it is on the CPU."""
    return 0 if projector is None else encoder_bytes(projector) + host_bytes(options)


class PlacedProjector(NamedTuple):
    """Where the encoder goes."""

    load: ProjectorLoad
    devices: Sequence[DeviceInfo]
    """All devices with the memory that it leaves free."""

    @property
    def share(self) -> DeviceShare | None:
        """Its share of a GPU; None: it is on the CPU."""
        return None if self.load.device == CPU else self.load.share


def place_projector(projector: Projector, options: LoadOptions, devices: Sequence[DeviceInfo]) -> PlacedProjector:
    """On the GPU with most free memory if it takes no more than `GPU_SHARE` of that, else on the CPU; as requested with
    `projector` gpu or cpu. Raises `DeviceUnavailable`."""
    roomiest = max(_gpus(options, devices), key=lambda device: device.free_bytes, default=None)
    need = encoder_bytes(projector) + DRIVER_BYTES
    if options.projector == "gpu":
        if roomiest is None:
            raise DeviceUnavailable(
                "projector gpu was requested, but no GPU is in use; `localllm doctor` lists devices, --projector cpu "
                "encodes pictures on the CPU",
                param="projector",
            )
        if need > roomiest.free_bytes:
            raise DeviceUnavailable(
                f"the projector needs {need / 1e9:.1f} GB, and {roomiest.name} has {roomiest.free_bytes / 1e9:.1f} GB "
                "free; --image-max-tokens takes less, --projector cpu none",
                param="projector",
            )
    elif roomiest is not None and (options.projector == "cpu" or need > roomiest.free_bytes * GPU_SHARE):
        roomiest = None
    name = CPU if roomiest is None else roomiest.name
    share = DeviceShare(name, 0, projector.info.size_bytes, 0, projector.info.compute_bytes)
    if roomiest is not None:
        left = msgspec.structs.replace(roomiest, free_bytes=roomiest.free_bytes - need)
        devices = [left if device is roomiest else device for device in devices]
    return PlacedProjector(ProjectorLoad(str(projector.path), projector.info, name, share), devices)


def _gpus(options: LoadOptions, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Those of this machine that the model may use; none if it is to use none. Raises as `gpus_of`."""
    if options.gpu_layers == 0 and options.projector != "gpu":
        return []
    return [device for device in gpus_of(options, devices) if not device.name.lower().startswith("rpc")]
