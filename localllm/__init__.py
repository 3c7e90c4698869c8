"""localllm: run quantized GGUF models on your own machine.

Names are imported on first use (PEP 562), so that `import localllm` and `localllm --help` cost nothing. Begin with
`ARCHITECTURE.md`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localllm.client.api import Client as Client
    from localllm.client.async_sidecar import AsyncSidecar as AsyncSidecar
    from localllm.client.server_process import SidecarExit as SidecarExit
    from localllm.client.sidecar import Sidecar as Sidecar
    from localllm.errors import AccessDenied as AccessDenied
    from localllm.errors import Cancelled as Cancelled
    from localllm.errors import ContextLengthExceeded as ContextLengthExceeded
    from localllm.errors import DeviceUnavailable as DeviceUnavailable
    from localllm.errors import DiskFull as DiskFull
    from localllm.errors import Draining as Draining
    from localllm.errors import ForbiddenAddress as ForbiddenAddress
    from localllm.errors import IncompleteDocument as IncompleteDocument
    from localllm.errors import InternalError as InternalError
    from localllm.errors import InvalidModelFile as InvalidModelFile
    from localllm.errors import InvalidParameter as InvalidParameter
    from localllm.errors import LoadConflict as LoadConflict
    from localllm.errors import LoadFailed as LoadFailed
    from localllm.errors import Loading as Loading
    from localllm.errors import LocalLLMError as LocalLLMError
    from localllm.errors import ModelNotFound as ModelNotFound
    from localllm.errors import NoChatTemplate as NoChatTemplate
    from localllm.errors import NotLoaded as NotLoaded
    from localllm.errors import PullFailed as PullFailed
    from localllm.errors import QueueFull as QueueFull
    from localllm.errors import RequestError as RequestError
    from localllm.errors import RequestTimeout as RequestTimeout
    from localllm.errors import SlotBusy as SlotBusy
    from localllm.errors import SlotNotFound as SlotNotFound
    from localllm.errors import TemplateError as TemplateError
    from localllm.errors import Unavailable as Unavailable
    from localllm.errors import UnknownParameter as UnknownParameter
    from localllm.errors import UnsupportedParameter as UnsupportedParameter
    from localllm.errors import WorkerCrashed as WorkerCrashed
    from localllm.errors import WrongOwner as WrongOwner
    from localllm.llm.async_llm import AsyncLLM as AsyncLLM
    from localllm.llm.blocking import LLM as LLM
    from localllm.llm.conversations import AsyncConversation as AsyncConversation
    from localllm.llm.conversations import Conversation as Conversation
    from localllm.llm.models import AsyncModels as AsyncModels
    from localllm.llm.models import ModelDetails as ModelDetails
    from localllm.llm.models import Models as Models
    from localllm.llm.parsed import AsyncParsedStream as AsyncParsedStream
    from localllm.llm.parsed import ParsedChat as ParsedChat
    from localllm.llm.parsed import ParsedStream as ParsedStream
    from localllm.llm.stream import AsyncStream as AsyncStream
    from localllm.llm.stream import Stream as Stream
    from localllm.llm.templates import Template as Template
    from localllm.runtime.scoring import Selection as Selection
    from localllm.runtime.scoring import TextScore as TextScore
    from localllm.server.mounting import ServerApp as ServerApp
    from localllm.settings.config import Settings as Settings
    from localllm.system.cancel import Cancel as Cancel
    from localllm.types import CallDelta as CallDelta
    from localllm.types import Chat as Chat
    from localllm.types import Delta as Delta
    from localllm.types import Finish as Finish
    from localllm.types import LoadedModel as LoadedModel
    from localllm.types import Message as Message
    from localllm.types import ModelInfo as ModelInfo
    from localllm.types import SamplingParams as SamplingParams
    from localllm.types import Speculative as Speculative
    from localllm.types import Structure as Structure
    from localllm.types import Timings as Timings
    from localllm.types import TokenLogprob as TokenLogprob
    from localllm.types import ToolCall as ToolCall
    from localllm.types import Usage as Usage
    from localllm.types.load_options import LoadOptions as LoadOptions
    from localllm.types.states import AvailableModel as AvailableModel
    from localllm.types.states import ModelEvent as ModelEvent
    from localllm.types.states import PullState as PullState
    from localllm.types.transcripts import Transcript as Transcript
    from localllm.types.transcripts import TranscriptSegment as TranscriptSegment

__version__ = "0.1.0"

_NAMES = {
    "system.cancel": "Cancel",
    "client.api": "Client",
    "client.async_sidecar": "AsyncSidecar",
    "client.server_process": "SidecarExit",
    "client.sidecar": "Sidecar",
    "server.mounting": "ServerApp",
    "settings.config": "Settings",
    "errors": "AccessDenied Cancelled ContextLengthExceeded DeviceUnavailable DiskFull Draining ForbiddenAddress "
    "IncompleteDocument InternalError InvalidModelFile InvalidParameter LoadConflict LoadFailed Loading LocalLLMError "
    "ModelNotFound NoChatTemplate NotLoaded PullFailed QueueFull RequestError RequestTimeout SlotBusy SlotNotFound "
    "TemplateError Unavailable UnknownParameter UnsupportedParameter WorkerCrashed WrongOwner",
    "llm.async_llm": "AsyncLLM",
    "llm.blocking": "LLM",
    "llm.conversations": "AsyncConversation Conversation",
    "llm.models": "AsyncModels ModelDetails Models",
    "llm.parsed": "AsyncParsedStream ParsedChat ParsedStream",
    "llm.stream": "AsyncStream Stream",
    "llm.templates": "Template",
    "types.load_options": "LoadOptions",
    "runtime.scoring": "Selection TextScore",
    "types.states": "AvailableModel ModelEvent PullState",
    "types.transcripts": "Transcript TranscriptSegment",
    "types": "CallDelta Chat Delta Finish LoadedModel Message ModelInfo SamplingParams Speculative Structure Timings "
    "TokenLogprob ToolCall Usage",
}
"""Module -> its names in the API."""

_HOME = {name: f"localllm.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'localllm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
