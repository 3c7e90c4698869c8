"""What a MODEL on the command line means: a name or a path, here or to be fetched, and its section of `config.toml`."""

from __future__ import annotations

from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.names import Demo, PathName, parse
from localllm.settings.config import Settings
from localllm.settings.sections import is_pattern


def is_name(model: str) -> bool:
    """Whether it is a name, not a path."""
    try:
        return not isinstance(parse(model), PathName)
    except InvalidParameter:
        return False  # perhaps a file; loading it reports what is wrong


def is_here(model: str, settings: Settings) -> bool:
    """Whether nothing has to be downloaded: a path, the bundled model, or one in the store."""
    if not is_name(model) or isinstance(name := parse(model), Demo):
        return True
    from localllm.registry.listing import store_of
    from localllm.registry.resolve import find

    return find(name, store_of(settings.data_dir)) is not None


def section_name(settings: Settings, model: str) -> str:
    """The name of a model's section in `config.toml`: its id, or the pattern itself."""
    if is_pattern(model):
        return model
    from localllm.registry.listing import store_of
    from localllm.registry.resolve import canonical, find, model_id

    if not is_name(model):
        return model_id(Path(model))
    name = parse(model)
    manifest = None if isinstance(name, Demo) else find(name, store_of(settings.data_dir))
    return str(canonical(name)) if manifest is None else manifest.name
