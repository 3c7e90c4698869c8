"""Interprets a MODEL on the command line: a name or a path, local or remote, and its section of `config.toml`."""

from __future__ import annotations

from localllm.registry.names.model_names import Demo, parse
from localllm.runtime.adapters import AdapterNames
from localllm.runtime.effective_settings import is_name as is_name
from localllm.runtime.effective_settings import section_name as section_name
from localllm.settings.config import Settings


def is_here(model: str, settings: Settings) -> bool:
    """Whether nothing has to be downloaded: a path, the bundled model, or one in the store."""
    model = AdapterNames(settings).base(model)
    if not is_name(model) or isinstance(name := parse(model), Demo):
        return True
    from localllm.registry.listing import store_of
    from localllm.registry.resolve import find

    return find(name, store_of(settings.data_dir)) is not None
