"""Creates a model from a Modelfile: a stored model or a GGUF file under a new name, with its own settings.

No tensor is read or copied: the new manifest names the same files. Knows nothing of how names are resolved (`resolve`
is passed in), nor of HTTP, which passes `allow_paths=False`: a client must not make a server open local files.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from localllm.errors import InvalidModelFile, InvalidParameter
from localllm.gguf import read_header, read_model_info, shard_paths
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import Store, now_text
from localllm.registry.foreign.foreign_model import file_name_of
from localllm.registry.foreign.header_facts import examine, facts_of
from localllm.registry.making.modelfile import Modelfile, format_modelfile
from localllm.registry.manifest import Manifest, Role, StoredFile
from localllm.registry.names import model_names
from localllm.registry.names.model_names import Demo, PathName
from localllm.registry.names.suggested import storable
from localllm.registry.remote import OnBytes
from localllm.registry.resolve import demo_files, find, not_here
from localllm.registry.sources.quants import quant_of
from localllm.types import SamplingParams

Resolve = Callable[[str], Manifest | tuple[Path, Path]]
"""Maps a name to its manifest, or to the files of the bundled model and its projector; raises `ModelNotFound`."""


def create(
    name: str,
    modelfile: Modelfile,
    store: Store,
    *,
    base_dir: Path,
    resolve: Resolve,
    allow_paths: bool = True,
    on_bytes: OnBytes | None = None,
    cancel: threading.Event | None = None,
) -> Manifest:
    """Store the Modelfile's model as `name`. Paths in it are relative to `base_dir`.

    The base model's settings are inherited unless the Modelfile overrides them; parameters are merged one by one.
    Raises `InvalidParameter`, `ModelNotFound`, `InvalidModelFile`, and what the store raises.
    """
    check_no_adapter(modelfile)
    canonical = storable(name)
    with store.hold(f"create of {canonical}") as hold:
        base = _Base(base_dir, resolve, allow_paths, functools.partial(_add, store, hold, on_bytes, cancel))
        return put(base.all(modelfile.bases), modelfile, canonical, store)


def check_no_adapter(modelfile: Modelfile) -> None:
    """Raises `InvalidParameter` where a model under an adapter cannot be made."""
    if modelfile.adapter is not None:
        raise InvalidParameter(
            "ADAPTER names a file of this machine, which a server does not open for clients; localllm create, or "
            "localllm lora add MODEL NAME FILE, adds it",
            param="adapter",
        )


def base_of(name: str, store: Store, hold: Hold, resolve: Resolve) -> Manifest:
    """The model of that name, to build on; `hold` protects blobs added for it. Raises as `create`."""
    return _Base(Path(), resolve, False, functools.partial(_add, store, hold, None, None)).model(name)


def put(base: Manifest, modelfile: Modelfile, name: str, store: Store) -> Manifest:
    """Store `base` under a canonical name, with the Modelfile's settings. Raises what the store raises."""
    made = _with_settings(base, modelfile, name)
    store.put(made)
    return made


def resolver(store: Store) -> Resolve:
    """Resolves the names of models on this machine."""

    def resolve(text: str) -> Manifest | tuple[Path, Path]:
        wanted = model_names.parse(text)
        if isinstance(wanted, Demo):
            return demo_files()
        manifest = find(wanted, store)
        if manifest is None:
            raise not_here(wanted, store)
        return manifest

    return resolve


def modelfile_of(manifest: Manifest) -> str:
    """A Modelfile that recreates this model on a machine where its base has the same name.

    Raises `InvalidParameter` for a text that a Modelfile cannot hold.
    """
    return f"# To build on this model, edit this file and run: localllm create NAME -f FILE\n{_text(manifest)}"


class _Base:
    """Where a new model's files come from."""

    def __init__(
        self, base_dir: Path, resolve: Resolve, allow_paths: bool, add: Callable[[Path, Role], StoredFile]
    ) -> None:
        self._base_dir = base_dir
        self._resolve = resolve
        self._allow_paths = allow_paths
        self._add = add

    def all(self, texts: tuple[str, ...]) -> Manifest:
        """The manifest of the first base, with the other bases as projectors."""
        manifest = self.model(texts[0])
        projectors = [self.projector(text) for text in texts[1:]]
        if not projectors:
            return manifest
        files = (*(file for file in manifest.files if file.role == "model"), *projectors)
        return msgspec.structs.replace(manifest, files=files)

    def model(self, text: str) -> Manifest:
        found = self._find(text)
        if isinstance(found, Manifest):
            return found
        if isinstance(found, tuple):
            bundled, projector = found
            manifest = self._of(bundled)
            return msgspec.structs.replace(manifest, files=(*manifest.files, self._add(projector, "projector")))
        return self._of(found)

    def _of(self, found: Path) -> Manifest:
        header = read_header(found)  # refuses a FIFO, a device or a directory
        paths = shard_paths(header)
        if len(paths) > 1:
            read_model_info(found)  # checks that the shards belong together
        facts = facts_of(header, "model")
        if facts.problem is not None:
            raise InvalidModelFile(f"{found.name} {facts.problem}", path=str(found))
        return Manifest(
            name="",
            source=str(found),
            created_at="",
            files=tuple(self._add(path, "model") for path in paths),
            quant=facts.quant or quant_of(found.name),
            license=facts.license,
        )

    def projector(self, text: str) -> StoredFile:
        found = self._find(text)
        if not isinstance(found, Path):
            raise InvalidParameter(
                f"the second FROM is the model {text!r}, but must be the path of a projector (mmproj) file",
                param="from",
            )
        facts = examine(found, "projector")
        if facts.problem is not None:
            raise InvalidModelFile(f"the second FROM, {found.name}, {facts.problem}", path=str(found))
        return self._add(found, "projector")

    def _find(self, text: str) -> Manifest | Path | tuple[Path, Path]:
        name = model_names.parse(text)
        if not isinstance(name, PathName):
            return self._resolve(text)
        if not self._allow_paths:
            # The same error whether the file exists or not, so that nothing is revealed about this machine's files.
            raise InvalidParameter(
                f"FROM {text[:80]!r} is a path, which a server does not open for clients; give the name of a model",
                param="from",
            )
        path = Path(name.path).expanduser()
        return path if path.is_absolute() else self._base_dir / path


def _add(
    store: Store, hold: Hold, on_bytes: OnBytes | None, cancel: threading.Event | None, path: Path, role: Role
) -> StoredFile:
    name = file_name_of(path.name)
    return store.add_file(path.resolve(), role=role, file_name=name, hold=hold, on_bytes=on_bytes, cancel=cancel)


def _with_settings(base: Manifest, modelfile: Modelfile, name: str) -> Manifest:
    given = {
        field.name: value
        for field in msgspec.structs.fields(SamplingParams)
        if (value := getattr(modelfile.params, field.name)) != field.default
    }
    return msgspec.structs.replace(
        base,
        name=name,
        source=base.source or next(iter(modelfile.bases), None),
        created_at=now_text(),
        params=msgspec.structs.replace(base.params, **given),
        stop=modelfile.stop or base.stop,
        ctx=modelfile.ctx or base.ctx,
        system=base.system if modelfile.system is None else modelfile.system or None,
        template=base.template if modelfile.template is None else modelfile.template or None,
        messages=modelfile.messages or base.messages,
        license_text=modelfile.license_text or base.license_text,
    )


def _text(manifest: Manifest) -> str:
    return format_modelfile(
        Modelfile(
            bases=(manifest.name,),
            params=manifest.params,
            stop=manifest.stop,
            ctx=manifest.ctx,
            system=manifest.system,
            template=manifest.template,
            messages=manifest.messages,
            license_text=manifest.license_text,
        )
    )
