"""Which names mean a model under adapters, and their files: those that were added, those that the owner of this runtime
gave, and the one that comes with localllm.

All names of one base share its process. A file is checked against the base that is loaded before a request carries it
there. Knows nothing of processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter, ModelNotFound, clipped
from localllm.gguf.adapters import read_adapter
from localllm.registry import resolve
from localllm.registry.adapters.names import GivenAdapter, NamedAdapter, composed, parse_named
from localllm.registry.adapters.shelf import Shelf, StoredAdapter, digest_of
from localllm.registry.names.model_names import DEFAULT_TAG, DEMO
from localllm.settings.config import Settings
from localllm.settings.sections import NamedVariant, title
from localllm.system.loop_turns import LoopTurn
from localllm.system.worker_threads import Threads
from localllm.types import AdapterInfo, AppliedAdapter, GenerationRequest, Layers, NumberedAdapter
from localllm.types.states import AvailableModel

BUNDLED = {"pirate": "demo-pirate-lora.gguf"}
"""Adapters of the bundled model, by the name after the plus sign."""


class KnownAdapter(NamedTuple):
    """An adapter that can be named."""

    name: str
    base: str
    """The id of its model."""
    path: Path
    digest: str
    """SHA-256, in hexadecimal digits; empty: not computed yet."""
    scale: float
    """Its strength where none is asked for."""
    size_bytes: int
    created_unix_s: int = 0
    source: str = ""
    layers: Layers | None = None
    """Of a control vector: the only layers that it changes, where no others are asked for."""
    invocation: tuple[int, ...] = ()
    """Of an activated adapter (aLoRA): the tokens from which on it works."""


class Variant(NamedTuple):
    """A model under adapters."""

    name: str
    base: str
    """A name of the model."""
    adapters: tuple[tuple[KnownAdapter, float], ...]
    """Each with its strength."""


class AdapterNames:
    """Belongs to one event loop, except for `listed`; files are read on threads."""

    def __init__(self, settings: Settings) -> None:
        self._shelf = Shelf(settings.data_dir)
        self._sections = settings.sections()
        self._given: dict[str, KnownAdapter] = {}
        self._stored: dict[str, KnownAdapter] = {}
        self._stamp = -1
        self._turn = LoopTurn()
        self._bundled: dict[str, KnownAdapter] = {}
        self._hidden: set[str] = set()
        self._defaults: dict[str, tuple[AppliedAdapter, ...]] = {}
        """Of requests that name no adapters, by the id of the model."""
        self._checked: dict[tuple[str, Layers | None, Path, int], AdapterInfo] = {}
        self._digests: dict[tuple[Path, int, int], str] = {}
        """Of files that were given, by path, size and time of the last change."""
        self._infos: dict[str, AdapterInfo] = {}
        """Of files that were checked, by digest."""
        self._threads = Threads("adapters", 2)

    def variant(self, name: str) -> Variant | None:
        """What the name means, if it is that of a model under adapters.

        Raises `ModelNotFound` for a model with an adapter that it does not have, `InvalidParameter` for a scale out of
        range.
        """
        name = name.removesuffix(f":{DEFAULT_TAG}")
        if (made := self._sections.variants().get(name)) is not None:
            return self._of_section(name, made)
        if (known := self._all().get(name)) is not None:
            return Variant(name, known.base, ((known, known.scale),))
        parts = composed(name) if "+" in name else None
        if parts is None:
            return None
        head, adapters = parts
        begun = self.variant(head)
        base, before = (head, ()) if begun is None else (begun.base, begun.adapters)
        return Variant(name, base, (*before, *(self._named(base, each) for each in adapters)))

    def _of_section(self, name: str, made: NamedVariant) -> Variant:
        try:
            found = self.variant("+".join((made.base, *made.adapters)))
        except ModelNotFound as error:
            raise ModelNotFound(f"{title(name)} in config.toml: {error.message}", param="model") from None
        if found is None:
            raise InvalidParameter(
                f"{title(name)} in config.toml: adapters has another form than NAME or NAME:SCALE", param="adapters"
            )
        return found._replace(name=name)

    def shown(self, name: str, id: str) -> str:
        """The id of the model that a name asks for, whose base has this `id`: the name itself if it has adapters."""
        return id if self.base(name) == name else name.removesuffix(f":{DEFAULT_TAG}")

    def base(self, name: str) -> str:
        """The model that the name is about: its base if it is one under adapters, of a route the first one. Never
        raises."""
        if (route := self._sections.routes().get(name)) is not None:
            return self.base(self._sections.model_named(route.models[0]))
        try:
            variant = self.variant(name)
        except (ModelNotFound, InvalidParameter):
            return name
        return name if variant is None else variant.base

    def of(self, base: str) -> list[KnownAdapter]:
        """The adapters of a model, in the order in which they were given, then by name."""
        known = self._all().values()
        same = {each for each in {adapter.base for adapter in known} if resolve.among({each}, base)}
        own = [each for each in known if each.base in same]
        names = {each.name for each in own}
        bundled = BUNDLED if resolve.among({DEMO}, base) else ()
        return [*own, *(self._carried(name) for name in bundled if name not in names)]

    def everything(self) -> list[KnownAdapter]:
        """All adapters of all models, with the bundled ones."""
        found = list(self._all().values())
        taken = {each.name for each in found if each.base == DEMO}
        return [*(self._carried(name) for name in BUNDLED if name not in taken), *found]

    def listed(self) -> list[AvailableModel]:
        """As models of this machine."""
        return [*self._listed_adapters(), *(self._listed_section(name) for name in self._sections.variants())]

    def _listed_section(self, name: str) -> AvailableModel:
        model = AvailableModel(id=name, size_bytes=0, created_unix_s=0, source="config.toml")
        try:
            variant = self.variant(name)
        except (ModelNotFound, InvalidParameter) as error:
            return msgspec.structs.replace(model, problem=error.message)
        assert variant is not None
        adapters = [adapter for adapter, _ in variant.adapters]
        return msgspec.structs.replace(
            model,
            base=adapters[0].base,
            size_bytes=sum(adapter.size_bytes for adapter in adapters),
            created_unix_s=max(adapter.created_unix_s for adapter in adapters),
        )

    def _listed_adapters(self) -> list[AvailableModel]:
        sections = self._sections.variants()
        return [
            AvailableModel(
                id=each.name,
                size_bytes=each.size_bytes,
                created_unix_s=each.created_unix_s,
                source=each.source or None,
                base=each.base,
            )
            for each in self._all().values()
            if each.name not in sections
        ]

    def is_stored(self, name: str) -> bool:
        """Whether it is the name of an adapter that was added."""
        return name in self._all() and name not in self._given

    def remove(self, name: str) -> None:
        """Forget one that was added. Reads files. Raises `ModelNotFound`."""
        self._shelf.remove(name)

    async def give(self, base: str, base_path: Path, given: Sequence[GivenAdapter]) -> list[KnownAdapter]:
        """The owner of this runtime has files for a model. Raises `InvalidParameter` for a name that is taken,
        `ModelNotFound`, `LoadFailed`s."""
        found = []
        for each in given:
            taken = self._all().get(each.name)
            digest = await self._digest_of(each.path)
            if taken is not None and (taken.base, taken.digest) != (base, digest):
                raise InvalidParameter(f"an adapter is already called {each.name}; write NAME=FILE", param="lora")
            path, status = each.path.absolute(), each.path.stat()
            known = KnownAdapter(
                each.name,
                base,
                path,
                digest,
                each.scale,
                status.st_size,
                int(status.st_mtime),
                str(each.path),
                each.layers,
            )
            info = await self._check_file(path, digest, each.layers, base_path)
            each.check(info)
            known = self._given[each.name] = known._replace(invocation=info.invocation)
            found.append(known)
        return found

    async def _digest_of(self, path: Path) -> str:
        """Read once, as long as the file does not change. Raises `InvalidModelFile`."""
        key = _stamp_of(path)
        if key not in self._digests:
            self._digests[key] = (await self._threads.run(digest_of, path)).hex
        return self._digests[key]

    async def under(
        self, variant: Variant | None, requests: Sequence[GenerationRequest], base_id: str, base_path: Path
    ) -> Sequence[GenerationRequest]:
        """The requests, each with the adapters that it names itself, or else those of the variant, or the default ones;
        checked against the model's file. Raises `InvalidModelFile`, `LoadFailed`, `InvalidParameter`."""
        base = base_id if variant is None else variant.base
        defaults = self._defaults.get(base, ())
        if variant is None and not defaults and all(each.adapters is None and each.lora is None for each in requests):
            return requests
        applied = defaults if variant is None else tuple(_applied(*each) for each in variant.adapters)
        requests = [
            each
            if each.lora is None
            else msgspec.structs.replace(each, adapters=self.numbered(base, each.lora), lora=None)
            for each in requests
        ]
        made = [
            each if each.adapters is not None else msgspec.structs.replace(each, adapters=applied) for each in requests
        ]
        for adapter in dict.fromkeys(adapter for each in made for adapter in each.adapters or ()):
            await self._check_file(Path(adapter.path), adapter.digest, adapter.layers, base_path)
        return [
            msgspec.structs.replace(each, adapters=tuple(map(self._as_checked, each.adapters or ()))) for each in made
        ]

    def numbered(self, base: str, asked: Sequence[NumberedAdapter]) -> tuple[AppliedAdapter, ...]:
        """Adapters of a model by their places in `of`. Raises `InvalidParameter`."""
        known = self.of(base)
        for each in asked:
            if not 0 <= each.id < len(known):
                has = f"its adapters have the ids 0 to {len(known) - 1}" if known else "it has none"
                raise InvalidParameter(
                    f"lora names adapter {each.id} of {clipped(base)}; {has} (/lora-adapters)", param="lora"
                )
        return tuple(_applied(known[each.id], each.scale) for each in asked)

    def set_defaults(self, base: str, asked: Sequence[NumberedAdapter]) -> None:
        """From now on, requests for the model that name no adapters are computed under these. Raises
        `InvalidParameter`."""
        self._defaults[base] = tuple(each for each in self.numbered(base, asked) if each.scale)

    def default_scale(self, base: str, adapter: KnownAdapter) -> float:
        """Its strength for such requests."""
        return sum(each.scale for each in self._defaults.get(base, ()) if each.digest == adapter.digest)

    def hide(self, name: str, *, hidden: bool) -> None:
        """A name that was added is no name of a model for now, or is again. Raises `ModelNotFound`."""
        if name not in self._stored and name not in self._given and self._shelf.find(name) is None:
            raise ModelNotFound(
                f"no adapter is called {clipped(name)!r} here; localllm lora add MODEL NAME FILE adds one",
                param="lora_name",
            )
        (self._hidden.add if hidden else self._hidden.discard)(name)

    def applied(self, base: str, text: str) -> AppliedAdapter:
        """An adapter of a model as NAME[:SCALE][:FIRST-LAST]. Raises `ModelNotFound`, `InvalidParameter`."""
        return _applied(*self._named(base, parse_named(text)))

    def _named(self, base: str, wanted: NamedAdapter) -> tuple[KnownAdapter, float]:
        found = next((each for each in self.of(base) if each.name == wanted.name), None)
        if found is None:
            names = ", ".join(each.name for each in self.of(base)[:5])
            remedy = f"it has {names}" if names else f"localllm lora add {clipped(base)} NAME FILE adds one"
            raise ModelNotFound(
                f"the model {clipped(base)} has no adapter called {clipped(wanted.name)!r}; {remedy}", param="model"
            )
        scale = found.scale if wanted.scale is None else wanted.scale
        return found._replace(layers=wanted.layers or found.layers), scale

    def _all(self) -> dict[str, KnownAdapter]:
        """Those that are models by their own names."""
        if self._turn.is_new() and (stamp := self._shelf.stamp()) != self._stamp:
            self._stamp = stamp
            self._stored = {each.name: _known(self._shelf, each) for each in self._shelf.all()}
        found = {**self._given, **{name: each for name, each in self._stored.items() if name not in self._given}}
        return {name: each for name, each in found.items() if name not in self._hidden} if self._hidden else found

    def _carried(self, name: str) -> KnownAdapter:
        if name not in self._bundled:
            path = resolve.carried(BUNDLED[name])
            status, digest = path.stat(), digest_of(path).hex
            self._bundled[name] = KnownAdapter(
                name, DEMO, path, digest, 1.0, status.st_size, int(status.st_mtime), path.name
            )
        return self._bundled[name]

    async def _check_file(self, path: Path, digest: str, layers: Layers | None, base_path: Path) -> AdapterInfo:
        """The file may be for another model of this name, one that was pulled later."""
        try:
            key = (digest, layers, base_path, os.stat(base_path).st_mtime_ns)
        except OSError:
            key = (digest, layers, base_path, 0)
        if key not in self._checked:
            self._checked[key] = await self._threads.run(read_adapter, path, base_path, layers)
        self._infos[digest] = self._checked[key]
        return self._checked[key]

    def _as_checked(self, adapter: AppliedAdapter) -> AppliedAdapter:
        """With what its file was found to be."""
        info = self._infos[adapter.digest]
        return msgspec.structs.replace(adapter, size_bytes=info.size_bytes, invocation=info.invocation)


def _known(shelf: Shelf, stored: StoredAdapter) -> KnownAdapter:
    return KnownAdapter(
        stored.name,
        stored.base,
        shelf.path(stored),
        stored.digest.hex,
        stored.scale,
        stored.size_bytes,
        stored.created_unix_s,
        stored.source,
        stored.layers,
        stored.invocation,
    )


def _stamp_of(path: Path) -> tuple[Path, int, int]:
    """Another one after the file has changed."""
    try:
        status = path.stat()
    except OSError:
        return path, 0, 0
    return path.absolute(), status.st_size, status.st_mtime_ns


def _applied(adapter: KnownAdapter, scale: float) -> AppliedAdapter:
    return AppliedAdapter(adapter.digest, str(adapter.path), scale, layers=adapter.layers)
