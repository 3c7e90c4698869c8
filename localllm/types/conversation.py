"""The parts of a chat: messages, the media and calls in them, and how all of it becomes a prompt. Plain frozen data.

A part of `types`. Knows nothing of templates or of any API's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

from localllm.types.documents import DocumentOptions

MediaKind = Literal["image", "video", "audio", "document"]
"""Documents become texts, and pictures of their pages, before a model gets them."""
ImageDetail = Literal["auto", "low", "high"]
"""How finely a model looks at a picture: as it does by itself, with its fewest rows, or with its most."""


HEAD_BYTES = 4096
"""How much of a file is looked at to see what it is."""


class Media(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture, video, sound or document at one place of a message."""

    kind: MediaKind
    digest: str
    """SHA-256 of the file's bytes as the client sent them, after base64; lowercase hex. Equal files are one."""
    num_bytes: int
    detail: ImageDetail = "auto"
    param: str = "messages"
    """Path in the request, for errors."""
    url: str = ""
    """Where its bytes are to be fetched, or a reference to an uploaded file; then it has no digest yet."""
    part_ms: tuple[int, int] | None = None
    """Of a sound: where the part that is read begins and ends; None: all of it."""
    document: DocumentOptions | None = None
    """For documents."""
    page: int = 0
    """For pictures: the file is a PDF, of which this page is shown, counted from 1; 0: the file is a picture."""
    instead: str = ""
    """What a model that does not read it gets in its place; empty: the request is refused."""
    is_past: bool = False
    """It was answered, or a tool returned it: if it turns out to be broken, a note stands in its place, since a client
    cannot take it back."""

    @property
    def content(self) -> str:
        """The digest of what is read of the file, lowercase hex: media with equal ones are one."""
        places = self.part_ms or ((self.page,) if self.page else ())
        return self.digest + "".join(f"{place:08x}" for place in places)


class MediaFile:
    """The bytes of a picture, sound or document, or how to get them: most are known to the worker from an earlier turn.

    Immutable; any thread may ask for the bytes. Equal files have equal digests.
    """

    __slots__ = ("__weakref__", "_data", "_load", "digest", "head", "num_bytes")

    def __init__(self, digest: str, data: bytes) -> None:
        self.digest = digest
        self.num_bytes = len(data)
        self.head = data[:HEAD_BYTES]
        """What says which kind of file it is."""
        self._data: bytes | None = data
        self._load: Callable[[], bytes] | None = None

    @classmethod
    def unloaded(cls, digest: str, num_bytes: int, head: bytes, load: Callable[[], bytes]) -> MediaFile:
        """`load` makes the bytes when they are first wanted."""
        file = cls(digest, head)
        file.num_bytes, file._data, file._load = num_bytes, None, load
        return file

    @property
    def data(self) -> bytes:
        data, load = self._data, self._load
        if data is None:
            assert load is not None
            data = self._data = load()
            self._load = None
        return data

    def hold(self) -> None:
        """Get the bytes now: until then, the request's whole body may be kept for them."""
        _ = self.data

    @property
    def is_loaded(self) -> bool:
        """Whether it holds its bytes, and nothing else."""
        return self._data is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MediaFile) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


class SoundCuts(msgspec.Struct, frozen=True):
    """A sound, cut at silences into parts that a projector reads as one piece each."""

    duration_ms: int
    parts_ms: tuple[tuple[int, int], ...]
    """Where each begins and ends, in order; what is silent throughout is left out."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that an assistant made in an earlier turn."""

    name: str
    arguments: str = "{}"
    """JSON as the model wrote it, or as a client sent it back."""
    id: str = ""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a chat. Its role is `system`, `developer`, `user`, `assistant` or `tool` (a call's result)."""

    role: str
    content: str
    parts: tuple[str | Media, ...] = ()
    """The same text in several parts, for templates that read parts, and pictures and sounds between them; empty: a
    single text."""
    thought: str = ""
    """The assistant's reasoning before it; the template decides whether the model sees it again."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """For a result: the id of its call."""
    name: str = ""
    """Name of the speaker, or of the called function."""

    @property
    def media(self) -> tuple[Media, ...]:
        """Its pictures, sounds and documents, in order."""
        return tuple(part for part in self.parts if isinstance(part, Media))

    @property
    def is_system(self) -> bool:
        """Whether its role is `system` or `developer`."""
        return self.role in ("system", "developer")

    @property
    def is_open(self) -> bool:
        """Whether an answer can continue at its end."""
        return self.role == "assistant" and not self.tool_calls


class Conversation(NamedTuple):
    """Messages as a model reads them."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...] = ()
    """What was left out of them: `PATH: what`."""
    files: tuple[MediaFile, ...] = ()
    """The bytes of their pictures and sounds, each once."""


class Rendering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How messages become a prompt. JSON is kept as text, so that the client's order of keys is preserved."""

    variables: str = "{}"
    """JSON object: further variables for the template."""
    tools: str = ""
    """JSON array, in the chat API's form."""
    documents: str = ""
    """JSON array."""
    add_generation_prompt: bool | None = None
    """Whether the prompt ends where an answer begins; None: yes, unless the last message is continued."""
    continue_final_message: bool | None = None
    """Whether the answer continues the last message; None: if that is an assistant's without calls."""

    def continues(self, messages: tuple[Message, ...]) -> bool:
        """Whether the last of them is continued."""
        if self.continue_final_message is not None:
            return self.continue_final_message
        last = messages[-1] if messages else None
        return self.add_generation_prompt is None and last is not None and last.is_open


class Function(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the model may call."""

    name: str
    parameters: str = ""
    """JSON Schema of its arguments, as the client wrote it; empty: any object."""
    is_strict: bool = False
    """A schema that cannot be enforced is an error; else its arguments may be any object, with a note."""
    param: str = "tools"
    """Path of its schema in the request, for errors."""


class Calling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tools an answer may or must call. `Rendering.tools` is what the template shows."""

    functions: tuple[Function, ...]
    choice: Literal["none", "auto", "required"] = "auto"
    """`none`: the tools stay in the prompt, so that it does not change, but no call is possible."""
    parallel: bool = True
    """Whether several calls are allowed."""


class CallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a call: the first one of each call has its id and name, and all have more arguments."""

    index: int
    """Index of the call in the answer, from 0."""
    arguments: str = ""
    """JSON; the pieces of a call together are one object."""
    name: str = ""
    id: str = ""


def whole_calls(deltas: Iterable[CallDelta]) -> tuple[ToolCall, ...]:
    """All calls of an answer, assembled from their pieces."""
    heads: dict[int, CallDelta] = {}
    arguments: dict[int, list[str]] = {}
    for delta in deltas:
        heads.setdefault(delta.index, delta)
        arguments.setdefault(delta.index, []).append(delta.arguments)
    return tuple(ToolCall(head.name, "".join(arguments[index]), head.id) for index, head in heads.items())
