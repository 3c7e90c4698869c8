"""One model's placement on devices: planned into the memory that others leave, with fewer layers after running out.

Reports if other models reduced it. Knows nothing of processes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from localllm.errors import DeviceUnavailable, LocalLLMError
from localllm.planning.draft_plan import DraftModel, PlacedDraft, beside, place_draft
from localllm.planning.placing import CPU, DRIVER_BYTES
from localllm.planning.plan import plan, shares_without_heads
from localllm.planning.projector_plan import PlacedProjector, Projector, place_projector
from localllm.supervisor.ledger import Ledger
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare, Placement

logger = logging.getLogger("localllm")

FEWER_LAYERS = 3 / 4
"""Share of `parts_on_gpus` with which a load is retried after a GPU ran out of memory."""


class Planned(NamedTuple):
    """Where a model and what is loaded besides go."""

    placement: Placement
    draft: PlacedDraft | None
    projector: PlacedProjector | None


class OnDevices:
    """The placement of one model, over all its loads."""

    def __init__(
        self,
        ledger: Ledger,
        library: str,
        id: str,
        info: ModelInfo,
        options: LoadOptions,
        draft: DraftModel | None = None,
        projector: Projector | None = None,
    ) -> None:
        """`library`: the runtime that enumerates the devices; workers with the same one see the same devices. `draft`:
        placed first, since a slow draft model is useless; then the projector.
        """
        self._ledger = ledger
        self._library = library
        self._id = id
        self._info = info
        self._options = options
        self._draft = draft
        self._projector = projector
        self._shortage = ""
        """Which memory ran out, as a phrase."""
        self._short: object = None
        """The session that ran out of it."""
        self._most_layers: int | None = None
        self.placement: Placement | None = None
        """The model's placement in its last load."""
        self.draft: PlacedDraft | None = None
        """The draft's placement in that load."""
        self.projector: PlacedProjector | None = None
        """The encoder's."""
        self._without_heads: tuple[DeviceShare, ...] = ()
        """What devices hold of it without the NextN layers that it was planned with; empty: there are none."""

    @property
    def every(self) -> int:
        """Number of layers, including the output head."""
        return self._info.num_layers + 1

    def drop_draft(self) -> None:
        """Place no draft from now on."""
        self._draft = None

    def free(self, reported: Sequence[DeviceInfo]) -> Sequence[DeviceInfo]:
        """The devices reported by its worker, with the memory that is free for this model."""
        self._ledger.see(self._library, reported, self._id)
        return self._ledger.free(reported, {self._id})

    def layers_with(self, options: LoadOptions, reported: Sequence[DeviceInfo]) -> int:
        """Layers that GPUs would hold with these options, the draft's included. Raises as `plan`."""
        placement, draft, _ = self._plan(options, self.free(reported))
        return placement.gpu_layers + (0 if draft is None else draft.load.placement.gpu_layers)

    def place(self, reported: Sequence[DeviceInfo], used: LoadOptions | None = None) -> Placement:
        """Plans a load that begins now, and enters it in the ledger. Raises as `plan`.

        `used`: the options, completed with automatic choices.
        """
        options = used or self._options
        if self._most_layers is not None:
            options = msgspec.structs.replace(options, gpu_layers=self._options.gpu_layers)
        free = self.free(reported)
        placement, draft, projector = self._plan(options, free)
        note = self._shortage and f"{self._shortage}: {self._told(placement)} there instead"
        placement = msgspec.structs.replace(placement, note=note or self._crowded(placement, reported))
        if placement.note:
            logger.warning("placed_with_less", extra={"fields": {"model": self._id, "note": placement.note}})
        self._ledger.hold(self._id, (*placement.shares, *_shares_of(draft, projector)), reported)
        self.placement, self.draft, self.projector, self._without_heads = placement, draft, projector, ()
        if placement.heads_ctx:
            self._without_heads = shares_without_heads(self._info, options, placement, free)
        return placement

    def layers_without(self, gone: Collection[str]) -> int:
        """What `parts_on_gpus` would be if the models in `gone` were unloaded; -1 while no devices are known."""
        try:
            placement, *besides = self._expected(gone)
        except LocalLLMError:
            return -1
        need: dict[str, int] = {}
        free: dict[str, int] = {}
        devices = {device.name: device for device in self._ledger.known(self._library, {*gone, self._id})}
        for share in (*placement.shares, *_shares_of(*besides)):
            device = devices.get(share.device)
            if device is not None and share.device != CPU and share.total:
                need[device.memory_key] = need.get(device.memory_key, 0) + share.total + DRIVER_BYTES
                free[device.memory_key] = device.free_bytes
        return parts_on_gpus(placement) if all(need[key] <= free[key] for key in need) else -1

    def main_bytes(self, alone: int, spread_bytes: int = 0) -> int:
        """Its main memory, if it would need `alone` without devices: less if devices hold some layers; with its share
        of what is spread over the layers besides."""
        return self._main_bytes(alone) + spread_bytes - sum(self.spread(spread_bytes).values())

    def _main_bytes(self, alone: int) -> int:
        try:
            if self.placement is None:
                placement, draft, projector = self._expected(())
            else:
                placement, draft, projector = self.placement, self.draft, self.projector
        except LocalLLMError:
            return alone
        there = [share for share in placement.shares if share.device != CPU] if placement.devices else []
        gone = sum(share.weights + share.kv for share in (*there, *_shares_of(draft)))
        return max(0, alone - gone - sum(share.total for share in _shares_of(projector)))

    def spread(self, num_bytes: int) -> dict[str, int]:
        """How many of these lie on each GPU, if they are spread over all layers."""
        shares = () if self.placement is None else self.placement.shares
        return {
            share.device: num_bytes * share.layers // self.every
            for share in shares
            if share.device != CPU and share.layers
        }

    def free_draft(self) -> None:
        """To be called when its worker has no draft any more; the next load places one again."""
        draft, self.draft = self.draft, None
        self._ledger.freed(self._id, _shares_of(draft), self._ledger.known(self._library))

    def free_projector(self) -> None:
        """To be called when its worker reads text only."""
        projector, self.projector = self.projector, None
        self._ledger.freed(self._id, _shares_of(projector), self._ledger.known(self._library))

    def free_heads(self) -> None:
        """To be called when its worker has no NextN layers that guess, or no longer."""
        if self.placement is None or not self._without_heads:
            return
        rest, self._without_heads = self._without_heads, ()
        gone = (
            DeviceShare(old.device, 0, old.weights - new.weights, old.kv - new.kv, old.compute - new.compute)
            for old, new in zip(self.placement.shares, rest, strict=True)
        )
        self._ledger.freed(self._id, gone, self._ledger.known(self._library))
        self.placement = msgspec.structs.replace(self.placement, shares=rest)

    def allocated(self) -> None:
        """To be called when the load is complete."""
        self._ledger.allocated(self._id)

    def release(self) -> None:
        """To be called when its process has ended."""
        self._ledger.release(self._id)

    def device_bytes(self, spread_bytes: int = 0) -> dict[str, int]:
        """Its planned memory on each GPU, with its share of what is spread over the layers besides."""
        found = self.spread(spread_bytes) if spread_bytes else {}
        own = self.placement.shares if self.placement else ()
        for share in (*own, *_shares_of(self.draft, self.projector)):
            if share.device != CPU and share.total:
                found[share.device] = found.get(share.device, 0) + share.total
        return found

    def takes_fewer(self, error: LocalLLMError, session: object) -> bool:
        """Whether to retry a load with fewer layers after this error of a session: only if a device ran out of memory,
        only once, and only if the number of layers is automatic. All callers that waited for the same session get the
        same answer."""
        device = error.details.get("out_of_memory_on")
        if device is None or self._options.gpu_layers != "auto" or self.placement is None:
            return False
        if self._short is not None:
            return session is self._short
        had = parts_on_gpus(self.placement)
        self._short, self._most_layers = session, min(int(had * FEWER_LAYERS), had - 1)
        self._shortage = f"out of memory on {device} with {self._told(self.placement)}"
        logger.warning("out_of_device_memory", extra={"fields": {"model": self._id, "message": error.message}})
        return True

    def _expected(self, gone: Collection[str]) -> Planned:
        return self._plan(self._options, self._ledger.known(self._library, {*gone, self._id}))

    def _plan(self, options: LoadOptions, devices: Sequence[DeviceInfo]) -> Planned:
        """Plans the model, its draft and its projector into the free memory. Raises as `plan` does."""
        draft = projector = None
        if self._draft is not None:
            draft = place_draft(self._info, options, self._draft, devices)
            devices = draft.devices
        if self._projector is not None:
            projector = place_projector(self._projector, options, devices)
            devices = projector.devices
        return Planned(plan(self._info, beside(self._draft, options), devices, self._most_layers), draft, projector)

    def _crowded(self, placement: Placement, reported: Sequence[DeviceInfo]) -> str:
        """A note naming the models that hold the memory it lacks; empty if that memory would make no difference."""
        others = {id: size for id, size in self._ledger.holders().items() if id != self._id}
        had = parts_on_gpus(placement)
        if (
            not others
            or (layers_on_gpus(placement) == self.every and not placement.cpu_experts)
            or self._options.gpu_layers != "auto"
        ):
            return ""
        try:
            alone, _, _ = self._plan(self._options, self._ledger.free(reported, {self._id, *others}))
        except DeviceUnavailable:
            return ""
        if parts_on_gpus(alone) <= had:
            return ""
        names = ", ".join(f"{id} ({size / 1e9:.1f} GB)" for id, size in others.items())
        return f"{self._told(placement)} on GPUs, because {names} uses memory there"

    def _told(self, placement: Placement) -> str:
        layers = f"{layers_on_gpus(placement)} of {self.every} layers"
        return f"{layers}, {placement.device_experts} of them with experts," if placement.cpu_experts else layers


def _shares_of(*besides: PlacedDraft | PlacedProjector | None) -> tuple[DeviceShare, ...]:
    return tuple(each.share for each in besides if each is not None and each.share is not None)


def layers_on_gpus(placement: Placement) -> int:
    """Layers on GPUs, including the output head."""
    return sum(share.layers for share in placement.shares if share.device != CPU)


def parts_on_gpus(placement: Placement) -> int:
    """Layers on GPUs, and once more those whose experts are there as far as there was room: more is faster."""
    return layers_on_gpus(placement) + placement.device_experts
