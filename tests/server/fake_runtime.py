"""A runtime that answers from a script. The server in front of it is the real one."""

from __future__ import annotations

import array
import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.chat.unreadable import readable
from localllm.errors import InvalidParameter, ModelNotFound, SlotNotFound, UnsupportedParameter, clipped
from localllm.planning.projector_plan import NO_COMPANION
from localllm.runtime.adapters import AdapterNames
from localllm.runtime.answer_reader import Routed
from localllm.runtime.pulling import Pulls
from localllm.runtime.routing import Routing
from localllm.runtime.runtime import NOTHING, Answer, ModelDescription, OnProgress, Runtime
from localllm.settings.config import Settings
from localllm.settings.model_names import not_loaded
from localllm.supervisor.observer import Observer
from localllm.types import (
    Delta,
    Finish,
    GenerationRequest,
    LoadedModel,
    Making,
    Media,
    MediaFile,
    Message,
    ModelDefaults,
    ModelInfo,
    PromptCount,
    Rendering,
    SamplingParams,
    SoundCuts,
    Timings,
    Usage,
)  # fmt: skip
from localllm.types.conversation import Conversation
from localllm.types.embeddings import EmbeddingRequest, Embeddings, Ranking, RerankRequest
from localllm.types.load_options import LoadOptions
from localllm.types.states import (
    AdapterStatus,
    AvailableModel,
    EngineStatus,
    MakeState,
    MediaStatus,
    NewModel,
    Preemptions,
    PullState,
    PushState,
    RunningModel,
    SlotStatus,
    SlotTransfer,
    SourceGuesses,
)  # fmt: skip

FINISH = Finish("stop", Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2), Timings(0.1, 0.2, 0.3))

NO_RENDERING = Rendering()
TEXT_ONLY = "it has no projector; pull one with it"
HANG = "hang"
VECTOR = (0.1, -0.25, 3e-7, 0.0)
"""What every text becomes, plus its number in the first place."""
Step = Delta | Exception | str | float
"""A number is a pause, in seconds."""

HELLO: tuple[Step, ...] = (Delta("Hel", 1), Delta("lo ✓", 1), Delta("", 1, FINISH))


def tiny_model(id: str = "tiny") -> LoadedModel:
    """What `Ready` might say."""
    info = ModelInfo(
        architecture="llama",
        name="Tiny",
        num_parameters=1234,
        size_bytes=5678,
        quantization={"Q8_0": 5678},
        file_type="Q8_0",
        context_length=512,
        num_layers=2,
        embedding_length=64,
        feed_forward_length=128,
        num_heads=4,
        num_kv_heads=2,
        vocabulary_size=300,
        tokenizer="llama",
        chat_templates={"default": "{{ messages }}"},
        sampling={},
        layer_bytes=(2000, 2000),
        other_bytes=1678,
        split_count=1,
    )
    return LoadedModel(
        id=id,
        path="/secret/place/tiny.gguf",
        info=info,
        ctx=512,
        slots=4,
        threads=2,
        layers_per_device={"CPU": 3},
        backend="linked-in",
        load_s=0.1,
        created_unix_s=1_700_000_000,
    )


class FakeAnswer(Answer):
    """Plays its script; HANG says so and waits until `go_on`, usually for ever."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.num_prompt_tokens = 7
        self.hangs = threading.Event()
        self.closed = threading.Event()
        self._script = iter(script)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._goes_on = asyncio.Event()

    def go_on(self) -> None:
        """From any thread, once it hangs: play what stands behind HANG."""
        assert self.hangs.wait(10)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._goes_on.set)

    async def __anext__(self) -> Delta:
        step = next(self._script, None)
        if step is None:
            raise StopAsyncIteration
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
            return await self.__anext__()
        if isinstance(step, str):
            self._loop = asyncio.get_running_loop()
            self.hangs.set()
            await self._goes_on.wait()
            return await self.__anext__()
        return step

    async def aclose(self) -> None:
        self.closed.set()

    def __del__(self) -> None:
        pass


class FakePulls(Pulls):
    """Has no registry to push to."""

    def __init__(self) -> None:
        pass

    async def push(self, id: str, on_state: Callable[[PushState], None]) -> str:  # noqa: ARG002
        raise UnsupportedParameter(f"{id} is split into 2 files", param="model")


class FakeRuntime(Runtime):
    """`script` is what the next answers play after `scripts`, one each; what was asked is in `asked`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new."""
        self.script: Sequence[Step] = HELLO
        self.scripts: list[Sequence[Step]] = []
        self.refusal: Exception | None = None
        self.accepts = True
        self.asking = threading.Event()
        self.gave_up = threading.Event()
        self.asked: list[tuple[str, object, SamplingParams]] = []
        self.reads: frozenset[str] = frozenset()
        """What the model reads beside text."""
        self.requests: list[GenerationRequest] = []
        self.routed: Routed | None = None
        self.answers: list[FakeAnswer] = []
        self.answered = threading.Event()
        self.models = [tiny_model()]
        self.restarts: list[str] = []
        self.keep_alives: list[float | None] = []
        self.others = [AvailableModel(id="other:1b", size_bytes=99, created_unix_s=1_600_000_000, quant="Q4_K_M")]
        self.loads: list[tuple[str | Path, LoadOptions | None, float | None]] = []
        self.pull_script: list[PullState | Exception] = []
        self.pull_stopped = threading.Event()
        self.is_stuck = False
        self.media: MediaStatus | None = None
        """What the models' encoders have done."""
        self.saved_slots: dict[str, int] = {}
        self.embedded: list[EmbeddingRequest] = []
        self.ranked: list[RerankRequest] = []
        self.truncated: tuple[int, ...] = ()
        self.scores: list[float] = []
        self.renderings: list[Rendering] = []
        self.notes: tuple[str, ...] = ()
        self.made: list[NewModel] = []
        self.widened: list[tuple[str, int]] = []
        self.companion = NO_COMPANION
        """Of a model that is described."""
        self.making: Making | None = None
        self.pulls = FakePulls()
        self.adapters = AdapterNames(Settings(home=Path("nowhere")))
        self.routes = Routing(Settings(home=Path("nowhere")))

    async def load(
        self,
        model: str | Path,
        options: LoadOptions | None = None,
        *,
        on_progress: OnProgress | None = None,
        keep_alive_s: float | None = -1.0,
        stays: bool = True,  # noqa: ARG002
        allow_paths: bool = True,  # noqa: ARG002
        least_ctx: int = 0,  # noqa: ARG002
        given: Mapping[str, Any] = NOTHING,
    ) -> LoadedModel:
        """Knows `other:1b`, and what is loaded."""
        loaded = {each.id: each for each in self.models}
        if model in loaded:
            return loaded[str(model)]
        if model != "other:1b":
            raise ModelNotFound(f"there is no model file {clipped(str(model))!r}", param="model")
        options = LoadOptions(**given) if given else options
        self.loads.append((model, options, keep_alive_s))
        if on_progress is not None:
            on_progress(0.5)
            await asyncio.sleep(0)
        self.models.append(tiny_model("other:1b"))
        return self.models[-1]

    def running(self) -> Sequence[RunningModel]:
        return [
            RunningModel(
                id=model.id,
                phase="ready",
                memory_bytes=1000,
                media_bytes=250,
                adapter_bytes=300,
                num_requests=1,
                idle_s=0.0,
                expires_in_s=None,
                pid=4711,
                loaded=model,
            )
            for model in self.models
        ]

    def available(self) -> Sequence[AvailableModel]:
        return self.others

    def listed(self) -> Sequence[AvailableModel]:
        return self.others

    async def described(self, model: AvailableModel) -> ModelDescription:
        return ModelDescription(tiny_model(model.id).info, ModelDefaults(), None, self.companion)

    async def ensure(self, model_id: str, keep_alive_s: float | None = None) -> None:
        if model_id not in {model.id for model in self.models}:
            await self.load(model_id, keep_alive_s=keep_alive_s)
        self.keep_alives.append(keep_alive_s)

    async def widen(self, id: str, ctx: int) -> None:
        """`tiny` can be had with up to 4096."""
        self.widened.append((id, ctx))
        self.models = [
            msgspec.structs.replace(model, ctx=min(ctx, 4096)) if model.id == id else model for model in self.models
        ]

    async def copy(self, source: str, target: str) -> None:
        self.others.extend(
            AvailableModel(id=target, size_bytes=model.size_bytes, created_unix_s=model.created_unix_s)
            for model in self.others
            if model.id == source
        )

    async def unload(self, model_id: str) -> None:
        self._check(model_id)
        self.models = [model for model in self.models if model.id != model_id]

    async def pull(self, name: str, on_state: Callable[[PullState], None] = lambda _: None) -> AvailableModel:
        """Of `new:1b` plays `pull_script`, then hangs unless that ends with `done` or an error."""
        if name != "new:1b":
            raise ModelNotFound(f"no model is called {clipped(name)!r}", param="model")
        for number, step in enumerate(self.pull_script):
            for _ in range(50 * number):  # until what came before has been sent
                await asyncio.sleep(0)
            if isinstance(step, Exception):
                raise step
            on_state(step)
            if step.phase == "done":
                return AvailableModel(id=name, size_bytes=step.done_bytes, created_unix_s=1)
        try:
            await asyncio.Event().wait()
        finally:
            self.pull_stopped.set()
        raise AssertionError

    async def make(self, wanted: NewModel, on_state: Callable[[MakeState], None] = lambda _: None) -> AvailableModel:
        self.made.append(wanted)
        on_state(MakeState(phase="writing"))
        return AvailableModel(id=wanted.name, size_bytes=1, created_unix_s=1)

    async def remove(self, name: str) -> None:
        if name not in [model.id for model in self.others]:
            raise ModelNotFound(f"{clipped(name)} is not on this machine", param="model")
        self.others = [model for model in self.others if model.id != name]

    async def own_bytes(self, name: str) -> int | None:
        sizes = {model.id: model.size_bytes for model in self.others}
        if name not in sizes:
            raise ModelNotFound(f"{clipped(name)} is not on this machine", param="model")
        return sizes[name]

    def loaded(self) -> Sequence[LoadedModel]:
        return self.models

    def restarting(self) -> Sequence[str]:
        return self.restarts

    def observe(self, observer: Observer) -> None:
        self.observer = observer

    async def tokenize(
        self,
        model_id: str,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,  # noqa: ARG002
    ) -> list[int]:
        """Its bytes; a BOS is 256."""
        self._check(model_id)
        return [256] * add_special + list(text.encode())

    async def pieces(self, model_id: str, tokens: Sequence[int], *, special: bool = True) -> list[bytes]:
        self._check(model_id)
        if any(not 0 <= token <= 256 for token in tokens):
            raise InvalidParameter("token is not in the vocabulary", param="tokens")
        return [b"<s>" * special if token == 256 else bytes([token]) for token in tokens]

    async def render(
        self, model_id: str, messages: Sequence[Message], rendering: Rendering = NO_RENDERING, *, marker: str = ""
    ) -> str:
        self._check(model_id)
        self.renderings.append(rendering)
        read, _ = readable(messages, self.reads, model_id, TEXT_ONLY)
        return "".join(f"<{message.role}>{message.content}{marker * len(message.media)}" for message in read)

    async def count(self, model_id: str, said: Conversation, rendering: Rendering = NO_RENDERING) -> PromptCount:
        """As many tokens as bytes, and four for each picture and sound that it reads."""
        text = await self.render(model_id, said.messages, rendering)
        kinds = [medium.kind for message in said.messages for medium in message.media if medium.kind in self.reads]
        num_text, num_audio = len(await self.tokenize(model_id, text)), 4 * kinds.count("audio")
        return PromptCount(num_text + 4 * len(kinds), 4 * len(kinds) - num_audio, num_audio)

    async def cut_sound(self, model_id: str, sound: Media, file: MediaFile) -> SoundCuts:  # noqa: ARG002
        """Two parts of a second each."""
        self._check(model_id)
        readable([Message("user", "", parts=(sound,))], self.reads, model_id, TEXT_ONLY)
        return SoundCuts(2000, ((0, 1000), (1000, 2000)))

    async def status(self, model_id: str) -> EngineStatus:
        self._check(model_id)
        if self.is_stuck:
            await asyncio.Event().wait()
        busy = SlotStatus(7, num_held=30, num_prompt=40, num_cached=10, num_computed=30)
        slots, guesses = (busy, *[SlotStatus(None, num_held=5)] * 3), (SourceGuesses("lookup", 50, 40),)
        preemptions = Preemptions(total=7, recomputed=1)
        return EngineStatus(
            slots, 2, 99, 4096, 1, num_threads=3, guesses=guesses, preemptions=preemptions, media=self.media,
            adapters=AdapterStatus(loaded=2, loaded_bytes=200, limit_bytes=400, switches=9, loads=5, evictions=3),
        )  # fmt: skip

    async def save_slot(self, model_id: str, slot: int, name: str) -> SlotTransfer:
        """Its slots hold as many tokens as their number, and a byte for each."""
        self._check_slot(model_id, slot)
        self.saved_slots[name] = slot
        return SlotTransfer(slot, slot, 0.25)

    async def restore_slot(self, model_id: str, slot: int, name: str) -> SlotTransfer:
        self._check_slot(model_id, slot)
        if name not in self.saved_slots:
            raise SlotNotFound(f"no slot of this model is saved as {clipped(name)!r}", param="filename")
        return SlotTransfer(self.saved_slots[name], self.saved_slots[name], 0.5)

    async def keep(self, model_id: str) -> int:
        self._check(model_id)
        return 2

    async def erase_slot(self, model_id: str, slot: int) -> int:
        self._check_slot(model_id, slot)
        return slot

    def _check_slot(self, model_id: str, slot: int) -> None:
        self._check(model_id)
        if self.refusal is not None:
            raise self.refusal
        if slot > 3:
            raise SlotNotFound(f"there is no slot {slot}", param="id_slot")

    async def submit(
        self, model_id: str, requests: Sequence[GenerationRequest], *, keep_alive_s: float | None = None
    ) -> list[Answer]:
        self.keep_alives.append(keep_alive_s)
        requests = [self._read(model_id, request) for request in requests]
        return [await self._answer(model_id, request) for request in requests]

    def _read(self, model_id: str, request: GenerationRequest) -> GenerationRequest:
        """As a worker reads it."""
        asked = request.messages or (Message("user", "", parts=request.prompt_parts or ()),)
        messages, notes = readable(asked, self.reads, model_id, TEXT_ONLY)
        return (
            request if not notes else msgspec.structs.replace(request, messages=messages, notes=request.notes + notes)
        )

    async def embed(self, model_id: str, request: EmbeddingRequest, *, keep_alive_s: float | None = None) -> Embeddings:
        """A text has as many tokens as bytes, and four for each picture, and without pooling as many vectors."""
        readable([Message("user", "", parts=parts) for parts in request.parts or ()], self.reads, model_id, TEXT_ONLY)
        self.embedded.append(request)
        await self._begin(model_id, keep_alive_s)
        items: list[Sequence[int]] = [text.encode() for text in request.texts or ()]
        items += request.tokens or ()
        for parts in request.parts or ():
            items.append(b"".join(part.encode() if isinstance(part, str) else b"####" for part in parts))
        per_token = self.models[0].pooling == "none"
        numbers = array.array("f")
        for number, item in enumerate(items):
            for _ in range(len(item) if per_token else 1):
                numbers.extend([number + VECTOR[0], *VECTOR[1:]][: request.dimensions])
        sizes = tuple(map(len, items))
        return Embeddings(
            data=numbers.tobytes(),
            dimensions=min(request.dimensions or len(VECTOR), len(VECTOR)),
            num_vectors=sizes if per_token else (1,) * len(items),
            num_tokens=sizes,
            truncated=self.truncated,
        )

    async def rerank(self, model_id: str, request: RerankRequest, *, keep_alive_s: float | None = None) -> Ranking:
        """The scores are `scores`, then zeros."""
        self.ranked.append(request)
        await self._begin(model_id, keep_alive_s)
        scores = [*self.scores, *[0.0] * len(request.documents)][: len(request.documents)]
        return Ranking(scores=tuple(scores), num_tokens=tuple(map(len, request.documents)), truncated=self.truncated)

    async def aclose(self) -> None:
        pass

    async def _begin(self, model_id: str, keep_alive_s: float | None) -> None:
        self._check(model_id)
        self.keep_alives.append(keep_alive_s)
        if self.refusal is not None:
            raise self.refusal
        if not self.accepts:
            self.asking.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.gave_up.set()

    def _check(self, model_id: str) -> None:
        if model_id not in {model.id for model in self.models}:
            raise not_loaded(model_id, [model.id for model in self.models])

    async def _answer(self, model_id: str, request: GenerationRequest) -> Answer:
        self._check(model_id)
        kinds = (
            request.messages,
            request.prompt,
            request.prompt_tokens,
            request.prompt_parts,
            request.infill and request.infill.prompt,
        )
        what = next(each for each in kinds if each is not None)
        self.asked.append((model_id, list(what) if isinstance(what, tuple) else what, request.params))
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        if not self.accepts:
            self.asking.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.gave_up.set()
        self.answers.append(FakeAnswer(self.scripts.pop(0) if self.scripts else self.script))
        self.answers[-1].notes = request.notes + self.notes
        self.answers[-1].routed = self.routed
        self.answers[-1].making = self.making if request.detail is not None and request.detail.making else None
        self.answered.set()
        return self.answers[-1]


def make_fake(_: Settings) -> Runtime:
    """For `serve(make_runtime=...)` where no test needs the runtime itself."""
    return FakeRuntime()
