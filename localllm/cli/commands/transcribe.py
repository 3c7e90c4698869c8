"""`localllm transcribe`: sounds in, their text or subtitles out, part by part. Knows no HTTP and no model's wording.

Text goes to stdout as soon as a part is whole, or to a file when its sound is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from localllm.cli.chat.attachments import Attachments, Bounds, is_address
from localllm.cli.render.progress import PartProgress
from localllm.cli.shared import config, hearing, report, sidecar
from localllm.cli.shared.model_names import is_here
from localllm.errors import InvalidParameter, LocalLLMError, sentence_of
from localllm.types import SamplingParams
from localllm.types.transcripts import VTT_HEAD, Transcript, TranscriptSegment, clock, srt_cue, vtt_cue

if TYPE_CHECKING:
    from localllm.client.api import Client
    from localllm.settings.config import Settings

Format = Literal["text", "srt", "vtt", "json", "verbose_json"]
STDIN = "-"
MOST_BYTES = 200 * 1024 * 1024
"""Of a file that is larger than the default allows: a request's body and a worker's message end at 256 MB."""
CTX = 4096
"""Tokens for a part, unless they are set: 30 s of sound are at most 750, and their text is fewer."""
_BY_SUFFIX: dict[str, Format] = {".txt": "text", ".srt": "srt", ".vtt": "vtt", ".json": "json"}
_SUFFIXES: dict[Format, str] = {**{format: suffix for suffix, format in _BY_SUFFIX.items()}, "verbose_json": ".json"}


class TranscribeOptions(NamedTuple):
    """The options of the command line."""

    files: Sequence[str]
    model: str | None
    language: str | None
    translate: bool
    format: Format | None
    output: str | None
    prompt: str | None
    params: SamplingParams
    load: Mapping[str, Any]
    """Settings by name; None: not given."""


class _Task(NamedTuple):
    """A sound, and the file for its transcript; None: stdout."""

    source: str
    target: Path | None

    @property
    def name(self) -> str:
        return "the standard input" if self.source == STDIN else self.source


def transcribe_files(options: TranscribeOptions) -> int:
    """Transcribe all; returns the exit code, that of the first file that failed. Raises `LocalLLMError`s before the
    first, `KeyboardInterrupt`, `BrokenPipeError`.
    """
    if not options.files and not sys.stdin.isatty():
        options = options._replace(files=[STDIN])
    format = _format(options)
    tasks = _tasks(options, format)
    settings = config.load(options.load)
    model = hearing.loaded(settings) if options.model is None and sidecar.may_be_running(options.load) else None
    if model is None:
        named = options.model
        model = hearing.only(settings) if named is None else settings.sections().model_named(named)
        if not is_here(model, settings) and not sidecar.fetch(model, settings):
            return report.INTERRUPTED
        hearing.check_hears(model, settings)
    bounds = _bounds(options, settings, tasks)
    own = {"max_media_bytes": bounds.max_bytes}
    if settings.ctx is None and not sidecar.is_set("ctx", model, settings):
        own["ctx"] = CTX
    with (
        sidecar.begin(model, options.load, settings, logs_to_file=False, slots=None, own=own) as server,
        server.client() as client,
    ):
        entry = client.model(server.model_id)
        if entry.reads is not None and "audio" not in entry.reads:
            raise hearing.deaf(server.model_id, entry.text_only_reason, settings)
        limit = None if server.is_sidecar else client.max_media_bytes()
        code = report.OK
        for number, task in enumerate(tasks):
            if format == "text" and len(tasks) > 1 and task.target is None:
                report.write(*([""] if number else []), f"==> {task.name} <==")
            try:
                _check_size(task, limit)
                _transcribe(client, server.model_id, task, _Writer(format, task.source), options, bounds)
            except LocalLLMError as error:
                named = error.message if task.name in error.message else f"{task.name}: {error.message}"
                report.say(f"localllm: {named}")
                code = code or report.exit_code(error)
    return code


def _bounds(options: TranscribeOptions, settings: Settings, tasks: Sequence[_Task]) -> Bounds:
    """As set, or as large as the largest file: the default protects servers from strangers."""
    bounds = Bounds.of(settings)
    if options.load.get("max_media_bytes") is not None:
        return bounds
    largest = max(_size(task.source) for task in tasks)
    return bounds._replace(max_bytes=max(bounds.max_bytes, min(largest, MOST_BYTES)))


def _check_size(task: _Task, limit: int | None) -> None:
    """Raises `InvalidParameter` for what is too large for a running server, whose limit is not ours to raise."""
    num_bytes = _size(task.source)
    if limit is not None and num_bytes > limit:
        raise InvalidParameter(
            f"{task.name} has {num_bytes:,} bytes; the running server reads at most {limit:,} (max_media_bytes); "
            f"with --max-media-bytes {num_bytes} the command starts a server of its own",
            param="files",
        )


def _transcribe(
    client: Client, model: str, task: _Task, writer: _Writer, options: TranscribeOptions, bounds: Bounds
) -> None:
    attachments, progress = Attachments(bounds), PartProgress(task.name)
    if task.source == STDIN:
        sound = attachments.take(sys.stdin.buffer.read(), task.name, "audio")
    else:
        sound = attachments.open(task.source, "audio")
    answer = client.transcribe(
        model,
        attachments.files[sound.digest].data,
        options.params,
        language=options.language,
        translate=options.translate,
        prompt=options.prompt,
    )
    written: list[str] = []
    try:
        progress.draw("listening")
        for made in answer:
            written.append(writer.end(made) if isinstance(made, Transcript) else writer.feed(made))
            progress.clear()
            if task.target is None:
                report.write_text(written[-1])
                sys.stdout.flush()
            if isinstance(made, TranscriptSegment):
                if made.warning:
                    report.say(f"localllm: {task.name}: {made.warning}")
                progress.draw(clock(made.end_s))
    finally:
        progress.clear()
    if task.target is not None:
        _save(task.target, "".join(written))


class _Writer:
    """A transcript in a format, piece by piece."""

    def __init__(self, format: Format, source: str) -> None:
        self._format = format
        self._source = source
        self._num = 0

    def feed(self, segment: TranscriptSegment) -> str:
        """The next segment."""
        if not segment.text:
            return ""
        self._num += 1
        if self._format == "text":
            return f"{segment.text}\n"
        if self._format == "srt":
            return srt_cue(self._num, segment)
        if self._format == "vtt":
            return ("" if self._num > 1 else VTT_HEAD) + vtt_cue(segment)
        return ""

    def end(self, transcript: Transcript) -> str:
        """What follows the last segment."""
        if self._format == "vtt" and not self._num:
            return VTT_HEAD
        if self._format in ("text", "srt", "vtt"):
            return ""
        made: dict[str, Any] = {"file": self._source, "text": transcript.text}
        if self._format == "verbose_json":
            made |= {"duration": transcript.duration_s, "segments": [*map(_segment, transcript.segments)]}
        usage = transcript.usage
        made["usage"] = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "audio_tokens": usage.audio_tokens,
            "cached_tokens": usage.cached_tokens,
        }
        if transcript.warnings:
            made["warnings"] = transcript.warnings
        return msgspec.json.encode(made).decode() + "\n"


def _segment(segment: TranscriptSegment) -> dict[str, Any]:
    return {
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        "finish_reason": "stop" if segment.cut_short is None else "length",
    }


def _format(options: TranscribeOptions) -> Format:
    if options.format is not None:
        return options.format
    return _BY_SUFFIX.get(PurePath(options.output or "").suffix.lower(), "text")


def _tasks(options: TranscribeOptions, format: Format) -> list[_Task]:
    """Raises `InvalidParameter` for what cannot be read or written, before a model is loaded."""
    if not options.files:
        raise InvalidParameter("no sound: give files, or - to read one from stdin", param="files")
    if options.files.count(STDIN) > 1:
        raise InvalidParameter("- is given twice; stdin is read once", param="files")
    for source in options.files:
        _check_readable(source)
    if options.output in (None, STDIN):
        if format in ("srt", "vtt") and len(options.files) > 1:
            raise InvalidParameter(
                f"subtitles of several sounds need files of their own: --output DIR, with --format {format}",
                param="--output",
            )
        return [_Task(source, None) for source in options.files]
    given = options.output or ""
    output = Path(given).expanduser()
    if len(options.files) == 1 and not output.is_dir() and not given.endswith(("/", "\\")):
        tasks = [_Task(options.files[0], output)]
    else:
        tasks = [_Task(source, output / f"{_stem(source)}{_SUFFIXES[format]}") for source in options.files]
    _check_targets(tasks)
    return tasks


def _stem(source: str) -> str:
    return "stdin" if source == STDIN else PurePath(source.partition("?")[0] if is_address(source) else source).stem


def _check_readable(source: str) -> None:
    if source == STDIN or is_address(source):
        return
    try:
        with open(Path(source).expanduser(), "rb"):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise InvalidParameter(f"{source} cannot be read: {why or error}", param="files") from error


def _check_targets(tasks: Sequence[_Task]) -> None:
    of_targets: dict[Path, str] = {}
    sources = {Path(task.source).expanduser().resolve() for task in tasks}
    for source, target in tasks:
        assert target is not None
        if target.resolve() in sources:
            raise InvalidParameter(f"--output {target} would overwrite a sound; name another file", param="--output")
        if (other := of_targets.setdefault(target, source)) != source:
            raise InvalidParameter(
                f"{other} and {source} would both be written to {target}; give them one after the other",
                param="--output",
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(error) from error


def _save(target: Path, text: str) -> None:
    from localllm.system.files import write_whole

    target = target.resolve()  # a link stays one
    try:
        if target.exists() and not target.is_file():  # a device or a pipe
            target.write_bytes(text.encode())
        else:
            write_whole(target, text.encode())
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> InvalidParameter:
    return InvalidParameter(f"--output cannot be written: {sentence_of(error)}", param="--output")


def _size(source: str) -> int:
    """0: unknown."""
    return 0 if source == STDIN or is_address(source) else Path(source).expanduser().stat().st_size
