"""Folders of the user: data, configuration, caches, and where other programs keep models."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_data_dir() -> Path:
    """Where models, KV, plugins and logs are stored."""
    import platformdirs

    return Path(platformdirs.user_data_dir("localllm", appauthor=False))


def user_config_dir() -> Path:
    """Where config.toml lives."""
    import platformdirs

    return Path(platformdirs.user_config_dir("localllm", appauthor=False))


def user_cache_root() -> Path:
    """The folder in which programs of the user keep their caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    else:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def desktop_data_dir() -> Path | None:
    """The user's folder for menu entries and icons on freedesktop.org systems; None on others."""
    if sys.platform == "linux":
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    else:
        return None


def shared_ollama_dirs() -> list[Path]:
    """Folders in which Ollama, running as a system service, keeps its models."""
    if sys.platform == "linux":
        return [Path("/usr/share/ollama/.ollama/models"), Path("/var/lib/ollama/models")]
    else:
        return []
