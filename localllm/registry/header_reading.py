"""Reads a model's header, with the chat template in use; errors of stored models name the remedy."""

from __future__ import annotations

from msgspec.structs import replace

from localllm.errors import InvalidModelFile
from localllm.gguf import read_model_info
from localllm.gguf.purpose import purpose_of
from localllm.registry.making.templates import with_template
from localllm.registry.resolve import ModelFile
from localllm.types import ModelInfo


def read_info(file: ModelFile, chat_template: str | None = None) -> ModelInfo:
    """Reads only the header, without checking the file's size and digest. `chat_template`: as for `with_template`.

    Raises `InvalidModelFile`, with the remedy, and `InvalidParameter`.
    """
    try:
        info = read_model_info(file.path)
    except InvalidModelFile as error:
        if file.remedy is None:
            raise
        raise InvalidModelFile(
            f"{file.id} cannot be loaded: {error.message}; {file.remedy}",
            path=str(file.path),
            public=f"{file.id} cannot be loaded: its file is damaged",
        ) from error
    if not info.purpose:
        info = replace(info, purpose=purpose_of([file.id]))
    return with_template(info, file.template, chat_template)
