"""Settings of a command. Knows nothing of what commands do with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localllm.settings import config
from localllm.settings.config import Settings


def load(command_line: Mapping[str, Any] | None = None) -> Settings:
    """As `settings.config.load`; names of models mean from now on what the user's catalog says, if there is one."""
    settings = config.load(command_line)
    if settings.catalog_url is not None:
        from localllm.registry import signed_catalog

        signed_catalog.use(settings)
    return settings
