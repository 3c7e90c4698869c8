"""Worker processes of one model, loaded in different ways: each is measured by answering requests, one at a time.

As many stay loaded as memory allows; otherwise they take turns. Knows nothing of comparisons and decisions.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from localllm.bench.prompts import words
from localllm.errors import InternalError, Loading, WorkerCrashed
from localllm.planning.device_choice import chooses_gpus, requires_gpus
from localllm.planning.draft_plan import beside, draft_bytes, place_draft
from localllm.planning.needs import need_bytes
from localllm.planning.plan import plan
from localllm.planning.projector_plan import place_projector, projector_bytes
from localllm.planning.tuned import Place, place_of
from localllm.settings.config import Settings
from localllm.supervisor.candidate import Candidate as Model
from localllm.supervisor.session import Session, SessionLimits
from localllm.system import memory
from localllm.tuning.candidates import DEFAULT, Candidate
from localllm.tuning.comparing import Rates
from localllm.tuning.workload import DEPTHS, RequestTiming, Work, prompt_tokens, rates_of
from localllm.types import DeviceInfo, Finish, GenerationRequest, LoadedModel, SamplingParams, Speculative
from localllm.types.load_options import LoadOptions
from localllm.worker import siblings
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load

MOST_LOADED = 8
"""Workers at a time: an idle one costs only memory, and a load may take longer than a run."""
USED_SHARE = 0.5
"""Share of the free memory; the rest is left to other programs."""
TEXT_WORDS = 3 * DEPTHS[0]
WARM_UP = Work((32,), 8)
"""For the first answer of a process, which is not measured."""
FORGOTTEN_S = 0.3
"""Idle time after which a worker no longer counts what others computed meanwhile as cores in use, on systems that do
not show workers each other's CPU time: `IDLE_S` of `engine/threads/team.py` and a margin."""
NO_GUESSES = Speculative(n_max=0)


class ReadyWorker(NamedTuple):
    """A worker that answers."""

    session: Session
    model: LoadedModel
    place: Place
    """As its process reported it."""
    uses_gpus: bool
    """Whether some of its layers are on GPUs."""


class Workers:
    """Used on one event loop; call `aclose` at the end."""

    def __init__(
        self, settings: Settings, model: Model, options: LoadOptions, on_load: Callable[[str], None] = lambda _: None
    ) -> None:
        """`options`: the default way to load the model. `on_load` is called with what is being loaded."""
        self._settings = settings
        self._model = model
        # Cached conversations must not distort the measurement.
        self._options = msgspec.structs.replace(options, kv_ram_mb=0, kv_disk_mb=0)
        self._on_load = on_load
        self._loaded: dict[Candidate, ReadyWorker] = {}
        """Most recently used last."""
        self._ran: Candidate | None = None
        """The candidate that was measured last."""
        self._ended_s: dict[Candidate, float] = {}
        """When the last measurement of each candidate ended."""
        self._text: list[int] = []
        free = memory.available_memory()
        need = need_bytes(model.info, beside(model.draft, options))
        need += 0 if model.draft is None else draft_bytes(model.info, options, model.draft)
        need += projector_bytes(model.companion.projector, options)
        room = MOST_LOADED if free is None else int(USED_SHARE * free // need)
        self._most = max(1, min(MOST_LOADED, room))

    async def load(self, candidate: Candidate) -> ReadyWorker:
        """The worker that has the model loaded this way. Raises `LoadFailed` and its subclasses, `WorkerCrashed`,
        `InvalidParameter`."""
        there = self._loaded.pop(candidate, None)
        if there is None:
            while len(self._loaded) >= self._most:
                await self._close(next(iter(self._loaded)))
            self._on_load(candidate.words if candidate != DEFAULT else "the default")
            there = await self._start(candidate)
        self._loaded[candidate] = there
        if there.uses_gpus:  # GPU memory one of them holds would be missing for another
            self._most = 1
        return there

    async def rates(self, candidate: Candidate, work: Work, number: int, *, guesses: bool) -> Rates:
        """The speed of one run with the `number`-th prompts. Raises as `load`."""
        worker = await self.load(candidate)
        if candidate != self._ran and not siblings.are_known():  # what ran between was another of ours
            waited_s = time.monotonic() - self._ended_s.get(candidate, -math.inf)
            await asyncio.sleep(max(0.0, FORGOTTEN_S - waited_s))
        try:
            self._ran = candidate
            rates = await self._run(worker.session, work, number, guesses=guesses)
            self._ended_s[candidate] = time.monotonic()
            return rates
        except WorkerCrashed:
            self._loaded.pop(candidate, None)
            raise

    async def aclose(self) -> None:
        """End all processes."""
        await asyncio.gather(*(self._close(candidate) for candidate in list(self._loaded)))

    async def _close(self, candidate: Candidate) -> None:
        await self._loaded.pop(candidate).session.aclose()

    async def _start(self, candidate: Candidate) -> ReadyWorker:
        settings, hellos = self._settings, list[Hello]()
        options = candidate.applied(self._options)

        def make_load(hello: Hello) -> Load:
            hellos.append(hello)
            model, draft = self._model, None
            devices: Sequence[DeviceInfo] = hello.devices
            if model.draft is not None:
                draft, _, devices = place_draft(model.info, options, model.draft, devices)
            projector = model.companion.projector and place_projector(model.companion.projector, options, devices)
            devices = projector.devices if projector else devices
            placement = plan(model.info, beside(model.draft, options), devices)
            return Load(
                model.id, str(model.path), model.info, options, placement, model.defaults,
                draft=draft, no_draft=model.no_draft,
                projector=projector and projector.load, no_media=model.companion.no_media,
            )  # fmt: skip

        command = worker_command(
            data_dir=settings.data_dir,
            runtime=settings.runtime,
            plugin_dir=settings.plugin_dir,
            verbose=settings.verbose,
            debug=False,
            devices=options.devices or (),
            rpc=settings.rpc,
            architecture=self._model.info.architecture,
            examines_devices=chooses_gpus(options),
            requires_gpus=requires_gpus(options),
        )
        session = Session(
            command,
            make_load,
            SessionLimits(1, settings.worker_timeout_s, settings.step_timeout_s),
            verbose=settings.verbose,
        )
        try:
            async with asyncio.timeout(settings.load_timeout_s):
                model = await asyncio.shield(session.ready)
            (hello,) = hellos
            await self._run(session, WARM_UP, -1, guesses=False)
        except TimeoutError:
            await session.aclose()
            raise Loading(
                f"{self._model.id} did not load within {settings.load_timeout_s:g} s (--load-timeout-s)", param="model"
            ) from None
        except BaseException:
            await session.aclose()
            raise
        place = place_of(library=hello.fingerprint, backend=hello.backend, devices=hello.devices)
        return ReadyWorker(
            session, model, place, any(not device.startswith("CPU") for device in model.layers_per_device)
        )

    async def _run(self, session: Session, work: Work, number: int, *, guesses: bool) -> Rates:
        text = await self._tokens(session)
        timed = []
        for depth in work.depths:
            # Equal weight for what guesses gain where they are right and what they cost where they never are.
            for repeats in (True, False) if guesses else (False,):
                prompt = prompt_tokens(text, depth, number, repeats=repeats)
                timed.append(await _ask(session, prompt, work.answer, guesses=guesses))
        return rates_of(timed)

    async def _tokens(self, session: Session) -> Sequence[int]:
        if not self._text:
            self._text = await session.call("tokenize", words("tune", TEXT_WORDS), False, False)
        return self._text


async def _ask(session: Session, prompt: tuple[int, ...], answer: int, *, guesses: bool) -> RequestTiming:
    request = GenerationRequest(
        prompt_tokens=prompt,
        params=SamplingParams(temperature=0.0, max_tokens=answer, ignore_eos=True),
        cache_prompt=False,
        speculative=Speculative() if guesses else NO_GUESSES,
    )
    pending = session.submit(request)
    try:
        finish: Finish | None = None
        while finish is None:
            finish = (await pending.mailbox.get()).finish
    except BaseException:
        pending.cancel()
        raise
    if finish.usage.completion_tokens < 2:
        raise InternalError(f"an answer of {answer} tokens ended after {finish.usage.completion_tokens}")
    timings = finish.timings
    return RequestTiming(len(prompt), timings.prefill_s, finish.usage.completion_tokens - 1, timings.decode_s)
