"""Folders of GGUF files: LM Studio's, llama.cpp's cache, and any that the user names.

LM Studio stores `PUBLISHER/REPO/FILE.gguf`, as on Hugging Face. Until 2025 llama.cpp stored `USER_REPO_FILE.gguf` with
the URL in a `.json` beside it; since then it shares the Hugging Face cache (common/hf-cache.cpp). Knows nothing of what
is in the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.foreign import hf_cache, ollama
from localllm.registry.foreign.file_groups import GroupLocation, ScannedFile, found_at, models
from localllm.registry.foreign.foreign_model import ForeignModel, Skipped
from localllm.registry.foreign.walk import files_in, gguf_files, read_small, size_of
from localllm.registry.names import model_names
from localllm.registry.names.model_names import HubFile
from localllm.registry.sources.quants import split_shard

MAX_SETTINGS_BYTES = 1024 * 1024
_RESOLVE = re.compile(r"https?://[^/]+/([^/]+/[^/]+)/resolve/([^/]+)/(.+\.gguf)", re.IGNORECASE)


def scan_lmstudio(models_folder: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """`PUBLISHER/REPO/...` is taken as the repository of that name; other files are named after themselves."""
    by_place: dict[GroupLocation, list[ScannedFile]] = {}
    for path in gguf_files(models_folder, skipped):
        parts = path.relative_to(models_folder).parts
        if len(parts) >= 3:
            place = GroupLocation("lmstudio", models_folder.joinpath(*parts[:2]), "/".join(parts[:2]))
        else:
            place = GroupLocation("lmstudio", path.parent)
        by_place.setdefault(place, []).append(found_at(path, path.relative_to(place.folder).as_posix()))
    for place, files in by_place.items():
        yield from models(files, place)


def lmstudio_folder(home: Path) -> Path:
    """The models folder of an LM Studio with this home folder; its settings may name another one."""
    raw = read_small(home / "settings.json", MAX_SETTINGS_BYTES)
    try:
        settings = json.loads(raw) if raw is not None else {}
        chosen = settings.get("downloadsFolder") if isinstance(settings, dict) else None
    except (ValueError, RecursionError):
        chosen = None
    return Path(chosen) if isinstance(chosen, str) and Path(chosen).is_absolute() else home / "models"


def scan_llama_cpp(cache: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """Files with a URL beside them belong to its repository; others are named after themselves."""
    yield from hf_cache.scan(cache, skipped)
    by_repo: dict[str, list[ScannedFile]] = {}
    loose: list[ScannedFile] = []
    for path in _gguf_in(cache, skipped):
        origin = _origin(path)
        if origin is None:
            loose.append(found_at(path, path.name))
        else:
            by_repo.setdefault(origin.repo, []).append(found_at(path, origin.path))
    for repo, files in by_repo.items():
        yield from models(files, GroupLocation("llama.cpp", cache, repo))
    yield from models(loose, GroupLocation("llama.cpp", cache))


def scan_path(path: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """A path from the user: another program's folder, any folder of files, or one file with its shards."""
    if ollama.is_store(path):
        yield from ollama.scan(path, skipped)
    elif hf_cache.is_repository(path):
        yield from hf_cache.scan_repository(path, skipped)
    elif hf_cache.is_cache(path):
        yield from hf_cache.scan(path, skipped)
    elif path.is_dir():
        for folder, files in groupby(gguf_files(path, skipped), key=lambda file: file.parent):
            yield from models([found_at(file, file.name) for file in files], GroupLocation("folder", folder))
    elif size_of(path) is not None:
        yield from _scan_file(path, skipped)
    else:
        skipped(f"{path} is neither a file nor a folder" if path.exists() else f"there is no file or folder {path}")


def _scan_file(path: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """One file with its shards; any suffix is accepted, since the header says what it is."""
    beside = _gguf_in(path.parent, skipped)
    files = [found_at(file, file.name) for file in (beside if path in beside else [path])]
    place = GroupLocation("folder", path.parent)
    stem, _, count = split_shard(path.name)
    of_it = [file for file in files if split_shard(file.relative)[::2] == (stem, count)]
    wanted = {file.path for file in of_it}
    for model in models(files, place):
        if any(file.path in wanted for file in model.files if file.role == "model"):
            yield model
            return
    yield from models(of_it, place)  # the user named a projector by itself


def _gguf_in(folder: Path, skipped: Skipped) -> list[Path]:
    return [path for path in files_in(folder, skipped) if path.name.lower().endswith(".gguf")]


def _origin(path: Path) -> HubFile | None:
    """The repository named by the `.json` beside the file; None if it is missing or its URL is not a repository's."""
    raw = read_small(path.with_name(f"{path.name}.json"), MAX_SETTINGS_BYTES)
    try:
        said = json.loads(raw) if raw is not None else {}
        url = said.get("url") if isinstance(said, dict) else None
        match = _RESOLVE.fullmatch(url) if isinstance(url, str) else None
        name = None if match is None else model_names.parse(f"hf:{match[1]}/{match[3]}")
    except (ValueError, RecursionError, InvalidParameter):
        return None
    return name if isinstance(name, HubFile) else None
