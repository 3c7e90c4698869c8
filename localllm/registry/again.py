"""The command that restores a stored model: a pull where a remote source has it, else create or import.

Knows nothing of disks.
"""

from __future__ import annotations

from localllm.errors import InvalidParameter
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import CatalogName, HubFile, HubRepo, RegistryName, UrlName, parse
from localllm.system.shell_words import shell_word


def again(manifest: Manifest) -> str:
    """A phrase that contains the command."""
    name = name_to_pull(manifest)
    if name is not None:
        return f"download the model again: localllm pull {shell_word(name)}"
    return "run localllm create or localllm import again"


def name_to_pull(manifest: Manifest) -> str | None:
    """The name that pulls the same files; None if they were created or imported on this machine."""
    name = parse(manifest.name)
    if isinstance(name, HubRepo | HubFile | RegistryName | UrlName):
        return manifest.name
    source = manifest.source or ""
    if isinstance(name, CatalogName):
        from localllm.registry import catalog

        entry = catalog.load().find(name.name, name.tag)
        if entry is not None and (not source or source.lower().startswith(f"hf.co/{entry.repo}@".lower())):
            return manifest.name
    if source.startswith("hf.co/"):
        repo, _, commit = source.removeprefix("hf.co/").partition("@")
        return str(HubRepo(repo, manifest.quant, commit or None))
    if source.startswith("ollama:"):
        return source.partition("@")[0]
    try:
        return source if isinstance(parse(source), UrlName) else None
    except InvalidParameter:
        return None
