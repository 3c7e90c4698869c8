"""`localllm batch`: a file of requests in, a file of results out. Says what is wrong before a model is loaded.

Reads the file twice: to check every line, and to send it. Knows nothing of how a line is answered.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from localllm.batches.lines import BatchLine, model_of, read_lines
from localllm.batches.prompted import Prompt, csv_lines, text_lines, text_of
from localllm.batches.results import Finished, read_results
from localllm.batches.running import Tally
from localllm.batches.windows import by_common_prefix
from localllm.cli.render.units import duration
from localllm.cli.shared import config, report, sidecar
from localllm.cli.shared.line_answering import Answering, LinesToAnswer
from localllm.cli.shared.model_names import is_here, is_name
from localllm.errors import InvalidParameter, ModelNotFound, sentence_of

if TYPE_CHECKING:
    from localllm.settings.config import Settings

STDIN = "-"
NAMED = 3
"""Wrong lines that are named."""


class BatchOptions(NamedTuple):
    """The options of the command line."""

    file: str
    output: Path
    model: str | None
    prompt: str | None
    system: str | None
    schema: Path | None
    concurrency: int | None
    overwrite: bool
    check: bool
    as_json: bool
    params: Mapping[str, Any]
    load: Mapping[str, Any]
    """Settings by name; None: not given."""


class _Checked(NamedTuple):
    """What the first reading found."""

    digests: dict[str, str]
    """Id -> digest, in the order of the file."""
    wrong: list[BatchLine]
    """Without their bodies."""
    models: list[str]
    """That the lines name, each once."""
    num_unnamed: int
    """Lines that name none."""


def run_batch(options: BatchOptions) -> int:
    """Answer all lines that have no answer yet; returns the exit code: 1 if some could not be answered, 130 after
    Ctrl-C. Raises `LocalLLMError`s before the first is sent."""
    settings = config.load(options.load)
    with _opened(options.file) as source:
        lines = functools.partial(_lines, source, options, settings)
        checked = _check(lines())
        _say_wrong(checked)
        if options.check:
            return _end(options, len(checked.digests), Tally(len(checked.digests) - len(checked.wrong)), 0.0)
        model = _model(options, checked, settings)
        finished = _finished(options, checked.digests)
        todo = len(checked.digests) - len(finished.digests)
        if not todo:
            return _end(options, len(checked.digests), Tally(), 0.0)
        if not is_here(model, settings) and not sidecar.fetch(model, settings):
            return report.INTERRUPTED
        left = (line for line in lines() if line.id not in finished.digests)
        return _answer(options, settings, model, by_common_prefix(left), todo)


def _opened(file: str) -> IO[bytes]:
    """Raises `InvalidParameter`."""
    if file == STDIN:
        copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
        while chunk := sys.stdin.buffer.read(1 << 20):
            copy.write(chunk)
        return copy
    try:
        return Path(file).expanduser().open("rb")
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {sentence_of(error)}", param="file") from error


def _lines(source: IO[bytes], options: BatchOptions, settings: Settings) -> Iterator[BatchLine]:
    """From the beginning of the file. Raises `InvalidParameter`."""
    source.seek(0)
    if options.prompt is None:
        for name in ("system", "schema"):
            if getattr(options, name) is not None:
                raise InvalidParameter(f"--{name} goes with --prompt; batch lines say it themselves", param=name)
        return read_lines(source, settings.max_body_bytes)
    text = text_of(source.read(), options.file)
    asked = Prompt(options.prompt, options.system, _fields(options))
    return csv_lines(text, asked) if options.file.lower().endswith(".csv") else text_lines(text, asked)


def _fields(options: BatchOptions) -> dict[str, Any]:
    from localllm.cli.chat.schema import document_format

    fields = {name: value for name, value in options.params.items() if value is not None}
    document = document_format(options.schema, as_json=False)
    return fields if document is None else {**fields, "response_format": document.response_format}


def _check(lines: Iterator[BatchLine]) -> _Checked:
    """Raises `InvalidParameter` for an empty file or an id that two lines have."""
    numbers: dict[str, int] = {}
    digests: dict[str, str] = {}
    wrong: list[BatchLine] = []
    models: dict[str, None] = {}
    num_unnamed = 0
    for line in lines:
        if line.id in numbers:
            raise InvalidParameter(
                f"lines {numbers[line.id]:,} and {line.number:,} have the same custom_id {line.id!r}; their results "
                "could not be told apart: give each line its own",
                param="file",
            )
        numbers[line.id], digests[line.id] = line.number, line.digest
        if line.problem:
            wrong.append(line._replace(body=b""))
        elif (model := model_of(line)) is None:
            num_unnamed += 1
        else:
            models[model] = None
    if not digests:
        raise InvalidParameter("the file has no lines", param="file")
    return _Checked(digests, wrong, list(models), num_unnamed)


def _say_wrong(checked: _Checked) -> None:
    for line in checked.wrong[:NAMED]:
        report.say(f"localllm: line {line.number:,}: {line.problem}")
    if len(checked.wrong) > NAMED:
        report.say(f"localllm: {len(checked.wrong) - NAMED:,} more lines are wrong")
    if len(checked.wrong) == len(checked.digests):
        raise InvalidParameter("no line is a batch request", param="file")


def _model(options: BatchOptions, checked: _Checked, settings: Settings) -> str:
    """The model to load first."""
    if options.model is not None:
        return settings.sections().model_named(options.model)
    if not checked.models:
        raise InvalidParameter("--model says which model answers", param="--model")
    model = settings.sections().model_named(checked.models[0])
    if not is_name(model) or not is_here(model, settings):
        raise ModelNotFound(f"the lines name {model!r}, which is not on this machine; -m MODEL answers them all")
    return model


def _finished(options: BatchOptions, digests: Mapping[str, str]) -> Finished:
    """What an earlier run answered. Raises `InvalidParameter` if that was another input."""
    path = options.output
    if options.overwrite or not path.exists() or not path.stat().st_size:
        return Finished({}, 0, is_torn=False)
    anew = f"--overwrite begins anew, another --output keeps {path}"
    try:
        finished = read_results(path)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidParameter(f"{path} cannot be gone on with: {why}; {anew}", param="--output") from error
    foreign = [id for id in finished.digests if id not in digests]
    changed = [id for id, digest in finished.digests.items() if digests.get(id, digest) != digest]
    for ids, what in ((foreign, "are not in the input"), (changed, "were answered for other requests")):
        if ids:
            raise InvalidParameter(
                f"{path} has results that {what}: {len(ids):,}, the first is {ids[0]!r}; {anew}", param="--output"
            )
    again = f", {finished.num_again:,} are tried again" if finished.num_again else ""
    torn = "; its last line was not whole" if finished.is_torn else ""
    report.say(f"localllm: {len(finished.digests):,} of {len(digests):,} are answered already{again}{torn}")
    return finished


def _answer(options: BatchOptions, settings: Settings, model: str, lines: Iterator[BatchLine], todo: int) -> int:
    running = sidecar.running_server(model, options.load, settings)

    def open_output() -> IO[bytes]:
        return options.output.open("wb" if options.overwrite else "ab")

    work = LinesToAnswer(lines, todo, model_for_all=options.model is not None, concurrency=options.concurrency)
    answering = Answering(settings, work, open_output)
    try:
        if running is None:
            asyncio.run(answering.here(model))
        else:
            with running:
                loaded = sidecar.load_now(running, model)
                asyncio.run(answering.there(running, loaded))
    except KeyboardInterrupt:
        report.say(
            f"localllm: stopped after {answering.tally.num_done:,} of {todo:,} lines; "
            "the same command goes on with the rest"
        )
        return report.INTERRUPTED
    except OSError as error:
        raise InvalidParameter(f"--output cannot be written: {sentence_of(error)}", param="--output") from error
    return _end(options, todo, answering.tally, time.monotonic() - answering.started_s)


def _end(options: BatchOptions, todo: int, tally: Tally, seconds: float) -> int:
    """Says how it went; returns the exit code."""
    if options.as_json:
        made = {"lines": todo, "answered": tally.num_answered, "failed": tally.num_failed, "seconds": round(seconds, 3)}
        report.write_json(msgspec.json.encode(made), indented=False)
    elif options.check:
        report.say(f"localllm: {tally.num_answered:,} of {todo:,} lines can be sent")
    elif tally.num_done:
        failures, again = "", ""
        if tally.first_failed is not None:
            failures = f", {tally.num_failed:,} failed (the first: line {tally.first_failed.number:,})"
            again = "; the same command tries those again"
        took = f"in {duration(seconds)}, {tally.num_done / max(seconds, 0.001):.1f}/s"
        report.say(f"localllm: {tally.num_answered:,} answered{failures}, {took}: {options.output}{again}")
    num_failed = todo - tally.num_answered if options.check else tally.num_failed
    return report.FAILURE if num_failed else report.OK
