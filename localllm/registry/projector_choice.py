"""Finds a model's projector: the file that the user named, the one pulled with it, or the only one beside a bare file.

Reads its header, and checks that it is one for this model. Knows nothing of devices.
"""

from __future__ import annotations

from pathlib import Path

from localllm.errors import InvalidParameter, LoadFailed, LocalLLMError
from localllm.gguf.projectors import read_projector
from localllm.gguf.rules.pictures import ANY_SIZE
from localllm.planning.projector_plan import NO_COMPANION, Companion, Projector, fitted, misfit
from localllm.registry.foreign.file_groups import projector_beside
from localllm.registry.resolve import ModelFile, is_downloadable
from localllm.system.shell_words import shell_word
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions


def find_projector(file: ModelFile, info: ModelInfo, options: LoadOptions) -> Companion:
    """The projector for `file`, whose header is `info`. One that nobody named is left out if it is of no use.

    For one that the user named, raises `LoadFailed` and its subclasses. Raises `InvalidParameter` for an
    `image_min_tokens` that it cannot have.
    """
    if options.projector == "off":
        how = "--projector auto" if file.is_bare else f"localllm set {shell_word(file.id)} projector=auto"
        return Companion(
            no_media=f"its projector is off (projector=off); {how} uses it", is_unused=file.projector is not None
        )
    if not info.causal:
        return NO_COMPANION
    path = file.projector if options.mmproj is None else Path(options.mmproj).expanduser()
    if path is None and file.is_bare:
        path = projector_beside(file.path)
    if path is None:
        return Companion(no_media=f"it has no projector (mmproj); {_remedy(file)}")
    try:
        return Companion(_checked(path, info, options))
    except InvalidParameter:
        raise
    except LocalLLMError as error:
        if options.mmproj is not None and error.param is None:
            raise LoadFailed(f"mmproj: {error.message}", param="mmproj") from error
        if options.mmproj is not None:
            raise
        return Companion(no_media=f"its projector cannot be used: {error.message}", is_unused=True)


def useful_projector(file: ModelFile, info: ModelInfo, options: LoadOptions) -> Companion:
    """As `find_projector`, with the reason in place of an error."""
    try:
        return find_projector(file, info, options)
    except LocalLLMError as error:
        return Companion(no_media=f"it would not load: {error.message}", is_unused=True)


def _checked(path: Path, info: ModelInfo, options: LoadOptions) -> Projector:
    found = read_projector(path, options.image_max_tokens)
    vision, fewest = found.vision, options.image_min_tokens or 0
    if vision is not None and vision.type in ANY_SIZE and fewest > vision.max_rows:
        raise InvalidParameter(
            f"image_min_tokens {fewest} is more than the {vision.max_rows:,} tokens of this model's largest picture; "
            "set image_max_tokens, too",
            param="image_min_tokens",
        )
    if problem := misfit(info, found):
        raise LoadFailed(f"{path.name} {problem}; --mmproj names another projector", param="mmproj")
    return Projector(path, fitted(info, found))


def _remedy(file: ModelFile) -> str:
    if not file.is_bare and is_downloadable(file.id):
        return f"localllm pull {shell_word(file.id)} downloads it if the model has one, --mmproj FILE names one"
    return "--mmproj FILE names one"
