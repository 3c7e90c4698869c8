"""Which model on this machine is meant: resolves names and paths to candidates, and remembers what the owner had
loaded.

Knows nothing of what is loaded now.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, LoadFailed, ModelNotFound
from localllm.planning.draft_plan import DraftModel
from localllm.planning.projector_plan import NO_COMPANION, Companion, with_rows
from localllm.planning.tuned import Tunings
from localllm.settings.config import Settings
from localllm.supervisor.candidate import Candidate
from localllm.system.worker_threads import Threads
from localllm.types import MediaKind, ModelDefaults, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.states import AvailableModel

Found = tuple[Candidate, int | None]
"""A model, and the context that its manifest sets."""
OptionsOf = Callable[[str], LoadOptions]


OF_STARTED_MODELS = ("mmproj", "draft", "chat_template")
"""Settings that name what belongs to one model."""


class StartedModel(NamedTuple):
    """How the owner of this runtime had a model loaded, so that it is loaded the same way again."""

    model: str | Path
    options: LoadOptions
    keep_alive_s: float | None
    stays: bool


class ModelDescription(NamedTuple):
    """What a model's file and its manifest say of it, loaded or not."""

    info: ModelInfo
    defaults: ModelDefaults
    ctx: int | None
    companion: Companion = NO_COMPANION

    @property
    def reads(self) -> tuple[MediaKind, ...]:
        """What it reads beside text."""
        return () if self.companion.projector is None else self.companion.projector.info.reads


MAX_DESCRIBED = 1000


class Finder:
    """Belongs to one event loop; the files are read on threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data_dir = settings.data_dir
        self._threads = Threads("find", 8)
        self._pending: set[asyncio.Future[Found]] = set()
        self._started: dict[str, StartedModel] = {}
        self._files: dict[str, tuple[Path, AvailableModel]] = {}
        """Files for which no store has a name."""
        self._described: dict[AvailableModel, ModelDescription] = {}

    def pending(self) -> set[asyncio.Future[Found]]:
        """Searches in progress: each may be for a model whose id is not known yet."""
        return set(self._pending)

    def started(self, id: str) -> StartedModel | None:
        """How the owner had the model of this id loaded; None if the owner had not."""
        return self._started.get(id)

    def known(self, name: str, loaded: Collection[str]) -> str:
        """The id of the model with this name, if it is `loaded` or the owner had it loaded; else the name."""
        return among({*loaded, *self._started}, name) or name

    async def unknown(self, name: str, loaded: Collection[str]) -> ModelNotFound:
        """The error for a name that is none of the models on this machine, nor of those that are `loaded`."""
        from localllm.registry.resolve import unknown

        there = await self._threads.run(self.available)
        return unknown(name, [*dict.fromkeys([*loaded, *(model.id for model in there)])])

    async def id_of(self, name: str) -> str:
        """The id under which the model of this name is loaded. Raises `InvalidParameter` for an invalid name."""
        from localllm.registry.listing import id_of

        return await self._threads.run(id_of, name, self._data_dir)

    def remember(self, candidate: Candidate, started: StartedModel) -> None:
        """Find the model by its id from now on, wherever its file is."""
        self._started[candidate.id] = started
        if _is_path(started.model):
            self._files[candidate.id] = candidate.path, _listed(candidate)

    def forget(self, id: str) -> None:
        """Drop what was read of the model with this id, which is another one now."""
        for model in [model for model in self._described if model.id == id]:
            del self._described[model]

    def available(self) -> Sequence[AvailableModel]:
        """The models on this machine. Reads files, so call it in a thread."""
        return [model for model in self.listed() if model.problem is None]

    def listed(self) -> Sequence[AvailableModel]:
        """The same, with models that cannot be used and their `problem`."""
        from localllm.registry.listing import listed

        there = listed(self._data_dir)
        ids = {model.id for model in there}
        files = list(self._files.items())
        return [*there, *(found for id, (path, found) in files if id not in ids and path.exists())]

    async def described(self, model: AvailableModel) -> ModelDescription:
        """What the model's file and manifest say; cached until another model gets its id. Raises as `find`."""
        if model not in self._described:
            candidate, ctx = await self.find(model.id, allow_paths=False, described=self._options_of)
            candidate.release()
            while len(self._described) >= MAX_DESCRIBED:
                self._described.pop(next(iter(self._described)))
            self._described[model] = ModelDescription(candidate.info, candidate.defaults, ctx, candidate.companion)
        return self._described[model]

    def _options_of(self, id: str) -> LoadOptions:
        """Files given on the command line are for the models that it names, not for others loaded on demand."""
        options = self._settings.for_model(id).load_options()
        given = [name for name in OF_STARTED_MODELS if self._settings.is_given(name)]
        if not given or id in self._started:
            return options
        own = self._settings.sections().of(id)
        return msgspec.structs.replace(options, **{name: own[name].value if name in own else None for name in given})

    async def find_to_load(
        self, model: str | Path, options: LoadOptions | None, given: Mapping[str, Any], *, allow_paths: bool
    ) -> tuple[Candidate, LoadOptions]:
        """The model with its own settings, and how to load it: `options`, or the settings for this model overridden by
        `given`; its manifest's context if these set none. Raises as `find`, and `InvalidParameter`.
        """

        def wanted(id: str) -> LoadOptions:
            known = self._settings.for_model(id).load_options() if allow_paths else self._options_of(id)
            return options or msgspec.structs.replace(known, **given)

        candidate, ctx = await self.find(model, allow_paths=allow_paths, wanted=wanted)
        try:
            found = wanted(candidate.id)
            defaults = self._settings.sections().defaults(candidate.id, candidate.defaults)
        except BaseException:
            candidate.release()
            raise
        if found.ctx is None and ctx is not None:
            found = msgspec.structs.replace(found, ctx=ctx)
        return candidate._replace(defaults=defaults), with_rows(found, candidate.companion.projector)

    async def find(
        self,
        model: str | Path,
        *,
        allow_paths: bool,
        wanted: OptionsOf | None = None,
        described: OptionsOf | None = None,
    ) -> Found:
        """The model of that name, which the caller releases. Raises `ModelNotFound`, `LoadFailed`s.

        `allow_paths`: a path is accepted as a name. `wanted`: the options for an id, whose chat template, draft model
        and projector are then part of the result. `described`: the same for a model that is only described: its
        projector, or why that cannot be used.
        """
        started = None if allow_paths else self.started(str(model))
        named = (model, allow_paths) if started is None else (started.model, True)
        finding = asyncio.ensure_future(
            self._threads.run(_candidate, named[0], self._data_dir, named[1], wanted, described)
        )
        self._pending.add(finding)
        finding.add_done_callback(self._pending.discard)
        try:
            return await asyncio.shield(finding)
        except ModelNotFound as error:
            if named[1] or error.param != "model":
                raise
            raise await self.unknown(str(model), ()) from None
        except asyncio.CancelledError:
            finding.add_done_callback(_let_go)  # the thread cannot be stopped; what it opens must be closed
            raise


def among(ids: Collection[str], name: str) -> str | None:
    """Which of these models the name means; None: none of them."""
    from localllm.registry import resolve

    return name if name in ids else resolve.among(ids, name)


def _let_go(finding: asyncio.Future[Found]) -> None:
    if not finding.cancelled() and finding.exception() is None:
        finding.result()[0].release()


def _is_path(model: str | Path) -> bool:
    from localllm.registry.names.model_names import PathName, parse

    try:
        return isinstance(model, Path) or isinstance(parse(model), PathName)
    except InvalidParameter:  # not a valid name, and yet it was found
        return True


def _listed(candidate: Candidate) -> AvailableModel:
    return AvailableModel(
        id=candidate.id,
        size_bytes=candidate.info.size_bytes,
        created_unix_s=int(candidate.path.stat().st_mtime),
        quant=candidate.info.file_type,
    )


def _with_draft(candidate: Candidate, wanted: str, data_dir: Path) -> Candidate:
    """The candidate with its draft, or why it has none. Raises `ModelNotFound`, `InvalidParameter`, `LoadFailed`s."""
    from localllm.registry.draft_choice import find_draft

    found = find_draft(wanted, candidate.id, data_dir)
    if found.draft is None:
        return candidate._replace(no_draft=found.reason)
    file, info = found.draft
    release = candidate.release

    def release_both() -> None:
        file.release()
        release()

    return candidate._replace(draft=DraftModel(file.id, file.path, info), release=release_both)


def _check_encoding(path: Path) -> None:
    """Raises `LoadFailed` for a path that no message to a worker can carry."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "replace")
        raise LoadFailed(
            f"the path {shown} is not in UTF-8; rename the file, or link to it under another name"
        ) from None


def _candidate(
    model: str | Path, data_dir: Path, allow_paths: bool, wanted: OptionsOf | None, described: OptionsOf | None
) -> tuple[Candidate, int | None]:
    from localllm.planning.dry_loads import completed
    from localllm.registry.header_reading import read_info
    from localllm.registry.projector_choice import find_projector, useful_projector
    from localllm.registry.resolve import resolve

    file = resolve(model, data_dir, allow_paths=allow_paths)
    try:
        _check_encoding(file.path)
        options = None if wanted is None else wanted(file.id)
        info = read_info(file, None if options is None else options.chat_template)
        info = completed(info, file.path, data_dir)
        tunings = Tunings(data_dir).of(file.path)
        found = Candidate(file.id, file.path, info, file.defaults, file.release, tunings)
        if options is not None and options.draft is not None and options.speculation != "off" and info.causal:
            found = _with_draft(found, options.draft, data_dir)
        if options is not None:
            found = found._replace(companion=find_projector(file, info, options))
        elif described is not None:
            found = found._replace(companion=useful_projector(file, info, described(file.id)))
    except BaseException:
        file.release()
        raise
    return found, file.ctx
