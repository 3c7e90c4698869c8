"""The worker's main: loads the library, then one model, then answers until its parent is gone.

Threads: a reader (frames in, pings answered; end-of-file ends the process immediately, whatever the others do), a
preparer (templates and tokens, so that a slow or bad request never stalls a step), the engine on the main thread, a
writer (frames out). A thread that fails ends the process, and with it all requests, with the reason. Knows nothing of
HTTP or of which models exist.
"""

from __future__ import annotations

import argparse
import gc
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.embedding.embedder import Embedder, TextOutput
from localllm.engine.embedding.encoder import EncoderEngine
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.sampling import native
from localllm.engine.sampling.sampler import NumpySampler, Sampler
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.threads.team import Team
from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.system import native_libraries, processes
from localllm.types import LoadedModel
from localllm.worker.cpu_clocks import CLOCKS, make_team
from localllm.worker.drafts.available import without_drafts
from localllm.worker.framing import FrameReader, FrameWriter, UndecodableFrame
from localllm.worker.grammars.constraints import Grammars
from localllm.worker.messages import (
    SLOT_METHODS,
    Call,
    Cancel,
    Deltas,
    Down,
    Embed,
    Failed,
    File,
    Hello,
    Load,
    Loading,
    Ping,
    Pong,
    Ready,
    Rejected,
    Reply,
    Shutdown,
    Submit,
    Vectors,
    down_decoder,
)  # fmt: skip
from localllm.worker.outbox import Outbox
from localllm.worker.prompts.media_texts import MediaTexts
from localllm.worker.prompts.preparer import Preparer
from localllm.worker.prompts.prompt_parts import MediaReader
from localllm.worker.prompts.rendering import Renderer
from localllm.worker.prompts.template_child import TemplateChild
from localllm.worker.prompts.text_preparer import TextPreparer
from localllm.worker.prompts.tokenized import PromptRules
from localllm.worker.states.slot_files import SlotFiler

if TYPE_CHECKING:  # see `Worker.run`
    from localllm.llama.adapters.lora import LlamaAdapters
    from localllm.llama.library import Library
    from localllm.llama.tokens.vocab import Vocab
    from localllm.worker.drafts.guess_sources import GuessSources
    from localllm.worker.loading import ModelInMemory

EXIT_BACKEND = 4
"""Exit code after `Failed`."""


def main() -> None:
    """Runs as a child process, with frames on stdin and stdout."""
    arguments = _parse_arguments()
    source, sink = processes.claim_standard_streams()
    threading.excepthook = _die_loudly
    # A failed assertion in ggml would start gdb on us: a minute of silence, then a backtrace in place of the reason.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    worker = Worker(FrameWriter(sink))
    reader = FrameReader(source, down_decoder)
    threading.Thread(target=_read_all, args=(reader, worker), name="reader", daemon=True).start()
    try:
        worker.run(arguments)
        code = 0
    except LocalLLMError as error:
        worker.outbox.put(Failed(error.info()))
        code = EXIT_BACKEND
    except Exception:  # noqa: BLE001  after any error the interpreter must not wait for threads in native code
        _end_loudly()
    worker.outbox.close()
    os._exit(code)  # daemon threads may be inside native code; the operating system frees the rest


def _sampler(threads: int, team: int | None) -> Sampler:
    """The compiled sampler, else the slow one; `localllm doctor` says which, and why."""
    try:
        return native.load(threads=threads, team=team)
    except native_libraries.NotCompiled:
        return NumpySampler()


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("localllm.worker")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--plugin-dir", type=Path)
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--devices", default="")
    parser.add_argument("--rpc", default="")
    parser.add_argument("--architecture", default="")
    parser.add_argument("--examine-devices", action="store_true")
    parser.add_argument("--require-gpus", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--debug", action="store_true")
    return parser.parse_args()


def _die_loudly(problem: threading.ExceptHookArgs) -> None:
    """A thread that ends unexpectedly would leave requests hanging forever; the parent can handle a dead process."""
    _end_loudly(problem.exc_value)


def _end_loudly(problem: BaseException | None = None) -> NoReturn:
    try:
        traceback.print_exception(problem or sys.exception())
    finally:  # even if stderr is closed
        os._exit(1)


def _read_all(reader: FrameReader[Down], worker: Worker) -> None:
    while True:
        try:
            message = reader.read()
        except UndecodableFrame as error:
            if error.id is None:
                raise
            worker.refuse_frame(error.id, error)
        except OSError:
            os._exit(0)
        else:
            if message is None:
                os._exit(0)  # end-of-file means the parent is gone: no worker outlives it
            worker.take(message)


class Worker:
    """One library, one model, one engine."""

    def __init__(self, writer: FrameWriter) -> None:
        self.outbox = Outbox(writer, on_gone=lambda: os._exit(0), on_failed=self._cancel)
        self._engine: Engine | EncoderEngine | None = None
        self._loads: queue.SimpleQueue[Load] = queue.SimpleQueue()
        self._preparer: Preparer | None = None
        self._saving: Engine | None = None
        """The engine, if it has anything to save at shutdown."""
        self._texts: TextPreparer | None = None
        self._slots: SlotFiler | None = None
        self._model: LoadedModel | None = None
        self._adapters: LlamaAdapters | None = None

    def take(self, message: Down) -> None:
        """One frame; called on the reader thread and never slow."""
        if isinstance(message, Ping):
            progress = None if self._engine is None else self._engine.progress
            is_busy, num_advances = (False, 0) if progress is None else (progress.is_busy, progress.num_advances)
            self.outbox.put(Pong(message.number, is_busy, num_advances))
        elif isinstance(message, Load):
            self._loads.put(message)
        elif isinstance(message, Shutdown) and self._saving is not None:
            self._saving.stop()  # the engine writes what it has in memory before it ends
        elif isinstance(message, Shutdown):
            os._exit(0)  # from the reader thread: the others may be busy for long; the system frees the model
        elif self._preparer is None or self._texts is None:
            self._refuse(message)
        elif isinstance(message, Submit):
            if self._adapters is not None:
                for each in message.request.adapters or ():
                    self._adapters.know(each.digest, Path(each.path), each.size_bytes)
            self._preparer.submit(message)
        elif isinstance(message, File):
            self._preparer.put(message)
            self._texts.put(message)
        elif isinstance(message, Cancel):
            self._cancel(message.id)
        elif isinstance(message, Embed):
            self._texts.submit(message)
        elif message.method in SLOT_METHODS and self._slots is not None:
            self._slots.call(message)
        else:
            self._preparer.call(message)

    def run(self, arguments: argparse.Namespace) -> None:
        """Say hello, load what the parent sends, step until the end. Raises `LocalLLMError`."""
        # Imported here, not above: a failing import of the library is reported too, since the reader is already
        # running.
        from localllm.worker.loading import load_model

        library = self._open_library(arguments)
        load = self._loads.get()
        # Started first, so that its imports run concurrently with the load.
        templates = TemplateChild() if "default" in load.info.chat_templates else None
        before_load = CLOCKS.read()
        loaded = load_model(library, load, self._report_progress(), arguments.data_dir, templates)
        model = self._model = loaded.report
        team = make_team(
            model.threads,
            model.threads_batch,
            layers_per_device=model.layers_per_device,
            has_cpu_tensors=load.placement.has_cpu_tensors,
            since=before_load,
        )
        self.outbox.gather(load.options.stream_interval_ms / 1000)
        engine, embedder = self._engine_of(library, loaded, load, team, arguments)
        media = self._open_media(library, load, loaded.vocab, engine, team, arguments) if load.info.causal else None
        self._prepare(loaded, load, engine, embedder, templates, media)
        self._adapters = None if loaded.backend is None else loaded.backend.adapters
        self._engine = engine
        gc.freeze()  # what a model needs stays: no collection between steps walks through it
        self.outbox.put(Ready(self._model))
        engine.run()

    def _open_library(self, arguments: argparse.Namespace) -> Library:
        """Says hello. Raises `LocalLLMError`."""
        from localllm.llama.probes.device_trials import examined
        from localllm.llama.runtimes.requested import Wishes

        wishes = Wishes(
            runtime=arguments.runtime,
            plugin_dir=arguments.plugin_dir,
            devices=tuple(filter(None, arguments.devices.split(","))),
            rpc=arguments.rpc,
            architecture=arguments.architecture,
            gpus=arguments.require_gpus,
        )
        library = wishes.load(wishes.choose(arguments.data_dir), verbose=arguments.verbose)
        devices = examined(
            library, arguments.data_dir, plugin_dir=arguments.plugin_dir, measure=arguments.examine_devices
        )
        build, absent = library.build, tuple(map(str, library.absent))
        self.outbox.put(Hello(os.getpid(), str(build), library.choice.label(), devices, build.fingerprint, absent))
        return library

    def _engine_of(
        self, library: Library, loaded: ModelInMemory, load: Load, team: Team, arguments: argparse.Namespace
    ) -> tuple[Engine | EncoderEngine, Embedder]:
        """The engine and its embedder. Drops a draft that cannot compute, from the model's report too. Raises
        `LoadFailed`."""
        from localllm.worker.loading import warm_up_embedder
        from localllm.worker.states.disk_cache import open_disk

        model, backend, options = loaded.report, loaded.backend, load.options
        limits = StepLimits(options.max_step_ms / 1000, options.prefill_step_ms / 1000)
        if backend is None:
            ready_embedder = warm_up_embedder(loaded.make_embedder())
            embedder = Embedder(lambda: ready_embedder, self._emit_vectors, max_step_s=limits.max_step_s, team=team)
            return EncoderEngine(embedder), embedder
        embedder = Embedder(
            loaded.make_embedder,
            self._emit_vectors,
            max_step_s=limits.max_step_s,
            prefill_step_s=limits.prefill_step_s,
            team=team,
        )
        disk = open_disk(library, load, backend, model.layers_per_device, arguments.data_dir)
        engine = build_engine(
            backend,
            self._emit,
            sampler=_sampler(model.threads, library.team),
            limits=limits,
            tiers=Tiers(options.kv_ram_mb * 10**6, options.checkpoints, None if disk is None else disk.open_cache),
            proposers=loaded.guesses.proposers(team, partial(self._drop_draft, loaded.guesses)),
            context_shift=options.context_shift,
            debug=arguments.debug,
            beside=embedder,
            team=team,
        )
        if disk is not None:
            self._saving = engine
        self._slots = SlotFiler(engine, None if disk is None else disk.named, self.outbox.put)
        return engine, embedder

    def _prepare(
        self,
        loaded: ModelInMemory,
        load: Load,
        engine: Engine | EncoderEngine,
        embedder: Embedder,
        templates: TemplateChild | None,
        media: MediaReader | None,
    ) -> None:
        """Start the preparers."""
        model, tokens = self._model, loaded.grammar_tokens
        assert model is not None
        media_texts = MediaTexts(model, loaded.vocab, media, self.outbox.put)
        self._texts = TextPreparer(model, loaded.vocab, engine, embedder, self.outbox.put, media_texts)
        self._preparer = Preparer(
            model,
            loaded.vocab,
            None if templates is None else Renderer(templates),
            engine,
            self.outbox.put,
            PromptRules(load.defaults, load.options.thinking, load.options.context_shift),
            grammars=None if tokens is None else Grammars(tokens, load.options.grammar),
            experience=loaded.guesses.experience(),
            media=media,
        )

    def _open_media(
        self,
        library: Library,
        load: Load,
        vocab: Vocab,
        engine: Engine | EncoderEngine,
        team: Team,
        arguments: argparse.Namespace,
    ) -> MediaReader | None:
        """What turns pictures and sounds into rows; None if the model reads none."""
        from localllm.worker.media.opening import open_reader

        assert self._model is not None
        return open_reader(
            library,
            load,
            ubatch_rows=self._model.ubatch,
            tokenize=partial(vocab.tokenize, add_special=False, parse_special=False),
            lend=lambda: team.lend(is_alone=not engine.progress.is_busy),
            data_dir=arguments.data_dir,
            plugin_dir=arguments.plugin_dir,
        )

    def refuse_frame(self, id: int, error: UndecodableFrame) -> None:
        """Reject a request that cannot be decoded, such as one with a value of a wrong type. Called on the reader
        thread."""
        sentence = f"{error.field}: {error.reason}" if error.field and error.field not in error.reason else error.reason
        info = InvalidParameter(sentence, param=error.field).info()
        self.outbox.put(Rejected(id, info))
        self.outbox.put(Reply(id, None, info))  # the parent uses whichever of the two it waits for

    def _drop_draft(self, guesses: GuessSources, reason: str) -> None:
        """Report that its draft model, or its own heads, failed; called while it loads, or by the engine's thread."""
        assert self._model is not None
        guesses.drop()
        self._model = without_drafts(self._model, reason)
        if self._preparer is not None:
            self._preparer.drop_drafts(self._model)
            self.outbox.put(Ready(self._model))

    def _cancel(self, id: int) -> None:
        if self._preparer is not None and self._texts is not None:  # else no request was accepted yet
            self._preparer.cancel(id)
            self._texts.cancel(id)

    def _report_progress(self) -> Callable[[float], None]:
        sent = 0.0

        def report(fraction: float) -> None:
            nonlocal sent
            if fraction - sent >= 0.01:
                sent = fraction
                self.outbox.put(Loading(fraction))

        return report

    def _emit(self, output: StepOutput) -> None:
        if self._preparer is not None:
            output = self._preparer.take(output)
        if output.deltas:
            self.outbox.put(Deltas(output.step, tuple(output.deltas)))
        for id, error in output.failures:
            self.outbox.put(Rejected(id, error.info()))

    def _emit_vectors(self, output: TextOutput) -> None:
        if output.error is not None:
            self.outbox.put(Rejected(output.id, output.error.info()))
            return
        data = b"".join(vectors.astype("<f4", copy=False).tobytes() for _, vectors in output.items)
        self.outbox.put(Vectors(output.id, tuple(index for index, _ in output.items), data, output.is_last))

    def _refuse(self, message: Submit | File | Embed | Cancel | Call) -> None:
        error = InternalError("the worker has no model yet").info()
        if isinstance(message, Submit | Embed):
            self.outbox.put(Rejected(message.id, error))
        elif isinstance(message, Call):
            self.outbox.put(Reply(message.id, None, error))
