"""`localllm create`: creates a model from a Modelfile. Knows nothing of a Modelfile's syntax."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from localllm.cli.render.bars import Bar
from localllm.cli.shared import report
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.system.shell_words import shell_word

if TYPE_CHECKING:
    from localllm.registry.making.modelfile import Modelfile
    from localllm.registry.manifest import Manifest

STDIN = "-"


def create_model(settings: Settings, name: str, file: Path, *, as_json: bool = False) -> int:
    """Create `name` from the Modelfile at `file` (`-`: stdin). Raises `LocalLLMError`s."""
    from localllm.cli.commands.store.pull import download
    from localllm.cli.shared.model_names import is_here
    from localllm.registry.listing import described, store_of
    from localllm.registry.making.create import create, resolver
    from localllm.registry.making.modelfile import parse_modelfile
    from localllm.worker.prompts.template_check import check_template

    store = store_of(settings.data_dir)
    modelfile = parse_modelfile(_read(file))
    done = 0

    def count(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        bar.show("verifying", done, None)

    if modelfile.adapter is not None:
        return _under_adapter(settings, name, modelfile, file, as_json=as_json)
    if modelfile.template:
        check_template(modelfile.template)
    base_dir = Path.cwd() if str(file) == STDIN else file.absolute().parent
    find = resolver(store)

    def resolve(base: str) -> Manifest | tuple[Path, Path]:
        """Find the base model, downloading it if needed."""
        if not is_here(base, settings) and download(settings, base, volume="progress" if as_json else "words") is None:
            raise KeyboardInterrupt
        return find(base)

    with Bar(name) as bar:
        created = create(name, modelfile, store, base_dir=base_dir, resolve=resolve, on_bytes=count)
    for notice in modelfile.notices:
        report.say(f"localllm: {notice}")
    if as_json:
        report.write_json(msgspec.json.encode(described(created)), indented=False)
    else:
        report.say(f"localllm: created {created.name}: localllm run {shell_word(created.name)}")
    return report.OK


def _under_adapter(settings: Settings, name: str, modelfile: Modelfile, file: Path, *, as_json: bool) -> int:
    """Add the Modelfile's adapter to its model, under that name."""
    from localllm.cli.commands.store.pull import download
    from localllm.cli.shared.model_names import is_here
    from localllm.registry.adapters.shelf import Shelf
    from localllm.registry.making.modelfile import Modelfile

    assert modelfile.adapter is not None
    of_base = {"license_text": (), "requires": None, "renderer": None, "parser": None}
    plain = Modelfile(bases=modelfile.bases, adapter=modelfile.adapter, adapter_scale=modelfile.adapter_scale)
    if msgspec.structs.replace(modelfile, **of_base) != plain or len(modelfile.bases) > 1:
        raise InvalidParameter(
            "a model under an adapter has its base's template, system message and parameters: leave out all but FROM "
            "and ADAPTER, or create a base with these settings first",
            param="adapter",
        )
    (base,) = modelfile.bases
    if not is_here(base, settings) and download(settings, base, volume="progress" if as_json else "words") is None:
        raise KeyboardInterrupt
    path = Path(modelfile.adapter).expanduser()
    base_dir = Path.cwd() if str(file) == STDIN else file.absolute().parent
    added = Shelf(settings.data_dir).add(base, name, base_dir / path, modelfile.adapter_scale)
    for notice in modelfile.notices:
        report.say(f"localllm: {notice}")
    if as_json:
        report.write_json(msgspec.json.encode({"id": added.name, "base": added.base}), indented=False)
    else:
        report.say(f"localllm: created {added.name}: localllm run {shell_word(added.name)}")
    return report.OK


def _read(file: Path) -> bytes:
    from localllm.registry.foreign.walk import read_small
    from localllm.registry.making.modelfile import MAX_MODELFILE_BYTES

    if str(file) == STDIN:
        return sys.stdin.buffer.read(MAX_MODELFILE_BYTES + 1)
    content = read_small(file.expanduser(), MAX_MODELFILE_BYTES)
    if content is None:
        raise InvalidParameter(
            f"the Modelfile {str(file)!r} does not exist, is not a readable regular file, or is larger than "
            f"{MAX_MODELFILE_BYTES:,} bytes; name another with -f",
            param="file",
        )
    return content
