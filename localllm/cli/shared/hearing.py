"""Models that hear: whether one does, and which of this machine do, by their headers. Loads nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from localllm.cli.shared.model_names import is_name
from localllm.client.discovery import find_server
from localllm.errors import LocalLLMError, ModelNotFound, UnsupportedParameter
from localllm.settings.config import Settings


def loaded(settings: Settings) -> str | None:
    """A model that hears and that the running server has loaded."""
    return next(iter(_hearing(settings)[0]), None)


def only(settings: Settings) -> str:
    """The only model here that hears. Raises `UnsupportedParameter` if there is none, or are several."""
    found = [*itertools.chain(*_hearing(settings))]
    if not found:
        raise UnsupportedParameter(f"no model on this machine hears; {_remedy()}", param="model")
    if len(found) > 1:
        raise UnsupportedParameter(f"several models here hear: {', '.join(found)}; --model says which", param="model")
    return found[0]


def check_hears(model: str, settings: Settings) -> None:
    """Raises `UnsupportedParameter` for a model of this machine that does not hear, with those that do."""
    try:
        reason = _why_deaf(model, settings)
    except ModelNotFound:  # the running server may know it
        return
    if reason is not None:
        raise deaf(model, reason, settings)


def deaf(model: str, reason: str, settings: Settings) -> UnsupportedParameter:
    """The error for a model that does not hear. `reason`: why it reads text only; may be empty."""
    hearing = [each for each in itertools.chain(*_hearing(settings)) if each != model]
    remedy = f"these models here do: {', '.join(hearing)}" if hearing else _remedy()
    return UnsupportedParameter(f"{model} cannot hear audio{reason and f': {reason}'}; {remedy}", param="model")


def _remedy() -> str:
    from localllm.registry import catalog

    names = dict.fromkeys(entry.name for entry in catalog.load().search("audio") if entry.kind == "audio")
    return f"localllm pull {next(iter(names))} downloads one that does (localllm search audio lists others)"


def _hearing(settings: Settings) -> tuple[Sequence[str], Sequence[str]]:
    """The loaded ones of the running server, and the others."""
    server = find_server(settings)
    if server is not None:
        with server:
            found = [entry for entry in server.models() if "audio" in (entry.reads or ())]
        return [entry.id for entry in found if entry.loaded], [entry.id for entry in found if not entry.loaded]
    from localllm.registry import listing

    return [], [model.id for model in listing.available(settings.data_dir) if _hears(model.id, settings)]


def _hears(model: str, settings: Settings) -> bool:
    try:
        return _why_deaf(model, settings) is None
    except LocalLLMError:  # the file is missing or damaged
        return False


def _why_deaf(model: str, settings: Settings) -> str | None:
    """None: it hears. Raises `ModelNotFound`, `LoadFailed`s."""
    from localllm.registry.header_reading import read_info
    from localllm.registry.projector_choice import useful_projector
    from localllm.registry.resolve import resolve

    file = resolve(model, settings.data_dir, allow_paths=not is_name(model))
    try:
        companion = useful_projector(file, read_info(file), settings.for_model(file.id).load_options())
    finally:
        file.release()
    if companion.projector is not None and "audio" in companion.projector.info.reads:
        return None
    return "" if companion.projector is not None else companion.no_media
