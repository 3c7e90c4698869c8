"""Settings for loading a model, each of which may also be set for a single model.

Knows neither their sources nor their effect on a plan.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from localllm.settings.values import comma_list
from localllm.types.declared import GROUPS, declared
from localllm.types.devices import parse_overrides, parse_shares
from localllm.types.load_options import LoadOptions
from localllm.types.loading import SLOTS, Loading, device
from localllm.types.rpc_endpoints import parse_endpoints


class LoadSettings(Loading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of `Loading`, and those that become something else before a worker gets them.

    `localllm.settings.config.Settings` adds all others.
    """

    # fmt: off
    slots: Annotated[int, SLOTS] = 4
    device: Annotated[str | None, device(
        "Devices listed by doctor: vulkan0, cuda0,cuda1, metal, cpu", "NAMES", default="auto", several=True,
        more="Comma-separated, in any case; a backend's name (cuda) for all its devices; rpc:HOST:PORT. auto: all "
        "GPUs."
    )] = None
    tensor_split: Annotated[str | None, device(
        "Share of each device", "N,N", default="by free memory", several=True, more="Such as 3,1."
    )] = None
    override_tensor: Annotated[str | None, device(
        "Devices for matching tensors, comma-separated", "PATTERN=DEVICE", several=True,
        more="Tensors whose name contains a match of the regular expression go there, such as `ffn_.*_exps=cpu`; the "
        "first match counts."
    )] = None
    runtime: Annotated[str, device(
        "llama.cpp build to use, from `localllm runtime list`", "NAME", who="machine",
        more="auto: the fastest one that works here."
    )] = "auto"
    rpc: Annotated[str | None, device(
        "Use devices of other machines that run `localllm worker`", "HOST:PORT,...", who="machine", several=True,
        more="Without encryption: use it in networks that you trust."
    )] = None
    # fmt: on

    @property
    def devices(self) -> tuple[str, ...] | None:
        names = comma_list(self.device)
        return None if [name.lower() for name in names] == ["auto"] else names or None

    def load_options(self) -> LoadOptions:
        """The options for a worker. Raises `InvalidParameter`."""
        parse_endpoints(self.rpc)  # only checked here; the worker gets the text unchanged
        return LoadOptions(
            **{name: getattr(self, name) for name in _UNCHANGED},
            devices=self.devices,
            tensor_split=parse_shares(self.tensor_split),
            override_tensor=parse_overrides(self.override_tensor),
        )


_UNCHANGED = msgspec.structs.asdict(Loading()).keys()
LOADING = tuple(
    sorted(declared(LoadSettings), key=lambda name: GROUPS.index(declared(LoadSettings)[name].setting.group))
)
"""Names of the settings for loading a model, by group."""
