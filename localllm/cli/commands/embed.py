"""`localllm embed`: texts from arguments, a file or stdin; vectors or a ranking on stdout. Knows no HTTP.

Texts are sent in batches, one request each, and each batch is printed before the next.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from localllm.cli.shared import config, report, sidecar
from localllm.cli.shared.given_text import decoded_lines
from localllm.cli.shared.model_names import is_here
from localllm.errors import InvalidParameter, LocalLLMError, RequestError, sentence_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from localllm.client.api import Client, EmbeddedTexts

BATCH_TEXTS = 256
BATCH_CHARS = 500_000
"""Limits of a batch, exceeded by one text at most: below `max_body_bytes` even with every character escaped."""
_STDIN = Path("-")
_NO_TEXT = InvalidParameter("no text: give texts as arguments, or one per line in --file or on stdin")


class EmbedOptions(NamedTuple):
    """The options of the command line."""

    model: str
    texts: Sequence[str] | None
    file: Path | None
    query: str | None
    dimensions: int | None
    no_normalize: bool
    truncate: bool
    as_json: bool
    npy: Path | None
    load: Mapping[str, Any]
    """Settings by name; None: not given."""


class _Batch(NamedTuple):
    """The texts of one request; `start` is the index of the first."""

    start: int
    texts: list[str]


class _Scored(NamedTuple):
    """A ranked batch: a score per text, in order, and which texts were truncated."""

    scores: list[float]
    truncated: Sequence[int]
    num_tokens: int


def embed_texts(options: EmbedOptions) -> int:
    """Embed or rank; returns the exit code. Raises `LocalLLMError`s, `KeyboardInterrupt`, `BrokenPipeError`."""
    _check(options)
    settings = config.load(options.load)
    if not is_here(options.model, settings) and not sidecar.fetch(options.model, settings):
        return report.INTERRUPTED
    with (
        _source(options) as texts,
        sidecar.begin(options.model, options.load, settings, logs_to_file=False) as server,
    ):
        batches = _batches(texts)  # read lazily; the first one while the model loads
        first = next(batches, None)
        if first is None:
            raise _NO_TEXT
        with server.client() as client:
            show = _embed if options.query is None else _rank
            return show(client, server.model_id, options, itertools.chain([first], batches))


def _check(options: EmbedOptions) -> None:
    for name, is_given in {
        "--npy": options.npy is not None,
        "--dimensions": options.dimensions is not None,
        "--no-normalize": options.no_normalize,
    }.items():
        if is_given and options.query is not None:
            raise InvalidParameter(f"{name} cannot be combined with --query, which prints no vectors", param=name)
    if options.npy is not None and options.as_json:
        raise InvalidParameter("--npy and --json cannot be combined", param="--npy")
    if options.texts and options.file is not None:
        raise InvalidParameter("give texts as arguments or in --file, not both", param="--file")


@contextlib.contextmanager
def _source(options: EmbedOptions) -> Iterator[Iterator[str]]:
    """The texts, read lazily. Raises `InvalidParameter` if there is no source, before a model is loaded."""
    if options.texts:
        yield iter(options.texts)
    elif options.file is not None and options.file != _STDIN:
        try:
            file = options.file.open("rb")
        except OSError as error:
            raise InvalidParameter(f"--file cannot be read: {sentence_of(error)}", param="--file") from error
        with file:
            yield _lines(file, str(options.file))
    elif options.file == _STDIN or not sys.stdin.isatty():
        yield _lines(cast("io.BufferedReader[Any]", sys.stdin.buffer), "the standard input")
    else:
        raise _NO_TEXT


def _lines(file: io.BufferedReader[Any], source: str) -> Iterator[str]:
    for number, text in enumerate(decoded_lines(file, source), 1):
        if not text:
            raise InvalidParameter(f"line {number} is empty; an empty text has no vector")
        yield text


def _batches(texts: Iterable[str]) -> Iterator[_Batch]:
    batch, num_chars = _Batch(0, []), 0
    for text in texts:
        batch.texts.append(text)
        num_chars += len(text)
        if len(batch.texts) == BATCH_TEXTS or num_chars >= BATCH_CHARS:
            yield batch
            batch, num_chars = _Batch(batch.start + len(batch.texts), []), 0
    if batch.texts:
        yield batch


def _embed(client: Client, model: str, options: EmbedOptions, batches: Iterator[_Batch]) -> int:
    vectors: list[msgspec.Raw] = []
    truncated: list[int] = []
    num_tokens = num_texts = 0
    for batch in batches:
        reply = _request(client, model, options, batch)
        truncated += [batch.start + index for index in reply.truncated]
        num_tokens += reply.usage.prompt_tokens
        num_texts += len(batch.texts)
        if options.as_json or options.npy is not None:
            vectors += reply.vectors
        else:
            report.write(*(bytes(vector).decode() for vector in reply.vectors))
            sys.stdout.flush()
    if options.as_json:
        _print_json({"model": model, "embeddings": vectors, "prompt_tokens": num_tokens, "truncated": truncated})
    if options.npy is not None:
        _save(options.npy, vectors)
    _say_truncated(truncated, num_texts)
    return report.OK


def _request(client: Client, model: str, options: EmbedOptions, batch: _Batch) -> EmbeddedTexts:
    try:
        return client.embed(
            model,
            batch.texts,
            dimensions=options.dimensions,
            normalize=not options.no_normalize,
            truncate=options.truncate,
        )
    except RequestError as error:
        raise _numbered(error, "input", batch.start) from error


def _rank(client: Client, model: str, options: EmbedOptions, batches: Iterator[_Batch]) -> int:
    texts: list[str] = []
    scores: list[float] = []
    truncated: list[int] = []
    num_tokens = 0
    score = _ranked
    for batch in batches:
        try:
            scored = score(client, model, options, batch)
        except InvalidParameter as error:
            if score is not _ranked or error.param != "model":
                raise
            report.say(f"localllm: {model} is not a reranker: scores are cosine similarities")
            score = _comparing(client, model, options)
            scored = score(client, model, options, batch)
        texts += batch.texts
        scores += scored.scores
        truncated += [batch.start + index for index in scored.truncated]
        num_tokens += scored.num_tokens
    best = sorted(range(len(texts)), key=lambda index: -scores[index])
    if options.as_json:
        results = [{"index": index, "relevance_score": scores[index], "text": texts[index]} for index in best]
        _print_json({"model": model, "results": results, "prompt_tokens": num_tokens, "truncated": truncated})
    else:
        report.write_text("".join(f"{scores[index]:.4f}\t{texts[index]}\n" for index in best))
    _say_truncated(truncated, len(texts))
    return report.OK


def _ranked(client: Client, model: str, options: EmbedOptions, batch: _Batch) -> _Scored:
    try:
        ranked = client.rerank(model, options.query or "", batch.texts, truncate=options.truncate)
    except RequestError as error:
        raise _numbered(error, "documents", batch.start) from error
    scores = [result.relevance_score for result in sorted(ranked.results, key=lambda result: result.index)]
    return _Scored(scores, ranked.truncated, ranked.usage.prompt_tokens)


def _comparing(client: Client, model: str, options: EmbedOptions) -> Callable[..., _Scored]:
    """Replaces `_ranked` for a model that only embeds; embeds the query, which is never truncated."""
    try:
        query = _rows(client.embed(model, [options.query or ""]).vectors)[0]
    except RequestError as error:
        raise type(error)((error.message).replace("input[0]", "the query"), param="--query") from error

    def compare(client: Client, model: str, options: EmbedOptions, batch: _Batch) -> _Scored:
        reply = _request(client, model, options, batch)
        return _Scored((_rows(reply.vectors) @ query).tolist(), reply.truncated, reply.usage.prompt_tokens)

    return compare


def _numbered(error: LocalLLMError, field: str, start: int) -> LocalLLMError:
    """Replaces the index in a request, `input[3]`, by the number of the text in the whole input, from 1."""
    match = re.fullmatch(rf"{field}\[(\d+)\].*", error.param or "")
    if match is None or error.param is None:
        return error
    name = f"text {start + int(match[1]) + 1}"
    return error.renamed(error.message.replace(error.param, name), error.param)


def _save(path: Path, vectors: Sequence[msgspec.Raw]) -> None:
    import numpy as np

    rows = _rows(vectors)
    try:
        with path.open("wb") as file:
            np.save(file, rows)
    except OSError as error:
        raise InvalidParameter(f"--npy cannot be written: {sentence_of(error)}", param="--npy") from error


def _rows(vectors: Sequence[msgspec.Raw]) -> npt.NDArray[np.float32]:
    import numpy as np

    try:
        return np.array([msgspec.json.decode(vector, type=list[float]) for vector in vectors], np.float32)
    except msgspec.ValidationError as error:
        raise InvalidParameter(
            "--npy and --query need one vector per text, but pooling is none", param="--pooling"
        ) from error


def _say_truncated(truncated: Sequence[int], num_texts: int) -> None:
    if truncated:
        which = ", ".join(str(index + 1) for index in truncated[:10]) + (" ..." if len(truncated) > 10 else "")
        report.say(f"localllm: {len(truncated)} of {num_texts} texts were too long and were truncated: {which}")


def _print_json(content: Mapping[str, Any]) -> None:
    report.write_json(msgspec.json.encode(content), indented=False)
