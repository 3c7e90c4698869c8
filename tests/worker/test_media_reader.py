"""Pictures and sounds become rows: through the real children, kept in memory and on disk, and whatever dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from localllm.engine.media import MediaRows
from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.gguf.projectors import read_projector
from localllm.llama.library import Library
from localllm.llama.media.projector import Pixels, Projector, Samples
from localllm.types import MediaKind
from localllm.worker.media.decoding_child import DecodeRequest, DecodingChild
from localllm.worker.media.encoder_messages import Describe, Encode, Open
from localllm.worker.media.encoder_process import EncoderProcess
from localllm.worker.media.reader import Reader
from localllm.worker.prompts.prompt_parts import MissingFiles, OmittedMedia
from tests.models.media import KINDS, MediaModel, MediaModelKind
from tests.models.rarer_encoders import write_vocabulary
from tests.models.sound_encoders import write_sound_encoder
from tests.waiting import until
from tests.worker.media_readers import (
    WIDTH,
    File,
    answer,
    as_file,
    open_test_reader,
    picture,
    read,
    rows_of,
    sound,
    spans,
)

MakeModel = Callable[[MediaModelKind], MediaModel]


def _file(kind: MediaModelKind) -> File:
    return sound(35) if kind == "voxtral" else picture()


def _directly(
    loaded: Library, model: MediaModel, file: File
) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """The same without processes."""
    kind: MediaKind = file.media.kind
    decoder = DecodingChild()
    decoded = decoder.decode(DecodeRequest(kind, file.data, "auto", 10**7, 100.0, 16000))
    decoder.close()
    assert decoded.problem == ""
    source = Pixels(decoded.width, decoded.height, decoded.data) if decoded.width else [Samples(decoded.data)]
    chunks = Projector(loaded, model.model, model.projector, kind=model.kind).read(source)
    return [chunks.encode(index, 1)[0] for index in range(sum(hasattr(each, "num_rows") for each in chunks.layout()))]


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("qwen2vl", "omni") else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS],
)
def test_rows_are_those_of_the_library_and_a_restart_needs_neither_the_file_nor_a_process(
    loaded: Library, media_model: MakeModel, kind: MediaModelKind, tmp_path: Path
) -> None:
    model, file = media_model(kind), _file(kind)
    expected = _directly(loaded, model, file)
    reader = open_test_reader(loaded, model, tmp_path)
    [pieces] = read(reader, file)
    rows = [rows_of(span) for span in spans(pieces)]
    assert len(rows) == len(expected) > 0
    assert all(np.array_equal(one, other) for one, other in zip(rows, expected, strict=True))
    assert reader.counters.encodes == len(rows)
    assert reader.status().encoded_rows == sum(map(len, rows))
    assert (reader.status().is_running, reader.status().restarts) == (True, 0)
    assert reader.status().cache_bytes == sum(each.nbytes for each in rows)
    ids = [id for span in spans(pieces) for id in span.ids]
    assert all(-(2**31) <= id < 0 for id in ids)
    assert len(set(ids)) == len(ids) == sum(map(len, rows))
    other = picture(9)
    assert answer(reader, file, other, sent={}) == MissingFiles((other.media.digest,))

    restarted = open_test_reader(loaded, model, tmp_path)
    [again] = read(restarted, file, sent={})
    assert [id for span in spans(again) for id in span.ids] == ids
    assert [each for each in again if not isinstance(each, MediaRows)] == [
        each for each in pieces if not isinstance(each, MediaRows)
    ]
    assert all(np.array_equal(rows_of(span), one) for span, one in zip(spans(again), rows, strict=True))
    counters = restarted.counters
    assert (counters.decodes, counters.encodes, counters.disk_hits) == (0, 0, len(rows))
    assert (restarted.status().disk_rows, restarted.status().pictures) == (sum(map(len, rows)), 0)
    assert restarted.encoder_pid is None


def test_a_long_sound_that_libmtmd_would_compute_whole_is_cut_and_has_the_same_rows(
    loaded: Library, media_model: MakeModel, tmp_path: Path
) -> None:
    """Gemma 4's rows are those of 40 ms each, so that they tell where a cut is."""
    text = write_vocabulary(tmp_path / "text.gguf", WIDTH)
    file = write_sound_encoder("gemma4ua", tmp_path / "mmproj.gguf", out=WIDTH)
    model = media_model("voxtral")._replace(model=text, projector=file)
    described = read_projector(file)
    assert described.audio is not None
    reader = open_test_reader(loaded, model, tmp_path, described)
    [pieces] = read(reader, long := sound(75))
    parts = [rows_of(span) for span in spans(pieces)]
    assert sum(map(len, parts)) == 75 * described.audio.rows_per_s
    assert len(parts) >= 3
    assert max(map(len, parts)) <= described.audio.span_rows == 750
    begin, *between, end = pieces
    assert not isinstance(begin, MediaRows)
    assert not isinstance(end, MediaRows)
    assert between == spans(pieces), "tokens are around the sound, not around its parts"
    [whole] = _directly(loaded, model, long)
    assert np.array_equal(np.concatenate(parts), whole)


def test_an_encoder_that_dies_of_a_medium_costs_that_and_no_other(
    loaded: Library, media_model: MakeModel, tmp_path: Path
) -> None:
    reader = open_test_reader(loaded, media_model("omni"), tmp_path)
    [[*_], [*_]] = read(reader, picture(1), picture(2))
    pid = reader.encoder_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)  # idle: costs nothing
    long = sound(100)
    (heard, seen) = (spans(pieces) for pieces in read(reader, long, picture(1)))
    assert reader.encoder_pid not in (None, pid)

    process = reader._encoding._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    ended = threading.Event()
    heard[-1].source.want(ended.set)
    until(lambda: bool(process._questions))
    seen[0].source.want(lambda: None)
    with process._writing:  # the question is in the pipe
        os.kill(process.pid, signal.SIGABRT)
        os.kill(process.pid, signal.SIGCONT)
    assert ended.wait(60)
    assert isinstance(heard[-1].source.failure, InternalError)
    assert "SIGABRT" in heard[-1].source.failure.message
    assert rows_of(seen[0]).shape == (16, WIDTH)
    with pytest.raises(InvalidParameter, match="not tried again"):
        rows_of(spans(read(reader, long)[0])[-1])
    assert rows_of(spans(read(reader, picture(3))[0])[0]).shape == (16, WIDTH)
    assert isinstance(found := answer(reader, _past(long)), list)
    assert isinstance(found[0], OmittedMedia), "an agent's session goes on"
    status = reader.status()
    assert (status.restarts, status.pictures, status.sounds, status.encoded_rows) == (2, 2, 0, 32)


def test_an_encoder_that_takes_longer_than_is_set_is_ended_and_its_picture_refused_as_long_as_is_set(
    loaded: Library, media_model: MakeModel, tmp_path: Path
) -> None:
    reader = open_test_reader(loaded, media_model("mlp"), tmp_path, media_timeout_s=1.0, media_refused_s=0.0)
    span = spans(read(reader, picture(1))[0])[0]
    assert reader.encoder_pid is not None
    os.kill(reader.encoder_pid, signal.SIGSTOP)
    with pytest.raises(InternalError, match="no answer within 1 s"):
        rows_of(span)
    assert rows_of(spans(read(reader, picture(1))[0])[0]).shape == (16, WIDTH)


class Moment(NamedTuple):
    """Of a question to the encoder process."""

    is_it: Callable[[object], bool]
    num_failures: int
    is_answered: bool = False


MOMENTS = {
    "while it starts": Moment(lambda message: isinstance(message, Open), 1),
    "layout": Moment(lambda message: isinstance(message, Describe), 0),
    "first tile": Moment(lambda message: isinstance(message, Encode), 1),
    "later tile": Moment(lambda message: isinstance(message, Encode) and message.first == 3, 1),
    "between tiles": Moment(lambda message: isinstance(message, Encode) and message.first == 2, 0, is_answered=True),
}


def test_an_encoder_that_is_killed_at_any_moment_costs_one_request_and_refuses_none(
    loaded: Library, media_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside requests for other pictures. Where nothing was being encoded, the question is asked again."""
    exchange, model = EncoderProcess._exchange, media_model("idefics3")

    def kill(process: EncoderProcess, id: int) -> None:
        until(lambda: id in process._questions)
        with process._writing:  # the question is in the pipe
            os.kill(process.pid, signal.SIGKILL)

    for name, moment in MOMENTS.items():
        killed: list[EncoderProcess] = []

        def exchanged(
            process: EncoderProcess,
            id: int,
            message: Any,
            deadline_s: float,
            moment: Moment = moment,
            killed: list[EncoderProcess] = killed,
        ) -> Any:
            is_it = not killed and moment.is_it(message)
            if is_it:
                killed.append(process)
            if is_it and not moment.is_answered:
                os.kill(process.pid, signal.SIGSTOP)
                threading.Thread(target=kill, args=(process, id)).start()
            found = exchange(process, id, message, deadline_s)
            if is_it and moment.is_answered:
                os.kill(process.pid, signal.SIGKILL)
                until(lambda: not process.is_alive)
            return found

        monkeypatch.setattr(EncoderProcess, "_exchange", exchanged)
        reader = open_test_reader(loaded, model, tmp_path / name)

        def seen(file: File, reader: Reader = reader) -> int | LocalLLMError:
            try:
                return len([rows_of(span) for span in spans(read(reader, file)[0])])
            except LocalLLMError as error:
                return error

        files = [picture(seed) for seed in range(3)]
        with ThreadPoolExecutor(3) as threads:
            found = [*threads.map(seen, files)]
        failures = [each for each in found if isinstance(each, LocalLLMError)]
        assert killed, name
        assert len(failures) == moment.num_failures, (name, failures)
        assert all("SIGKILL" in each.message for each in failures)
        assert [seen(file) for file in files] == [7] * 3, name


def test_what_nobody_wants_any_more_is_not_encoded(loaded: Library, media_model: MakeModel, tmp_path: Path) -> None:
    reader = open_test_reader(loaded, media_model("voxtral"), tmp_path)
    is_wanted = [True]
    [left] = read(reader, sound(65), is_wanted=lambda: is_wanted[0])
    [wanted] = read(reader, sound(5))
    spans(left)[0].source.want(lambda: is_wanted.__setitem__(0, False))
    rows_of(spans(left)[0])
    spans(left)[-1].source.want(lambda: None)
    assert rows_of(spans(wanted)[0]).shape == (15, WIDTH)
    assert reader.counters.encodes == 2


def test_an_idle_encoder_ends_and_comes_back(loaded: Library, media_model: MakeModel, tmp_path: Path) -> None:
    reader = open_test_reader(loaded, media_model("mlp"), tmp_path, media_idle_s=0.1)
    read(reader, picture(1))
    until(lambda: reader.encoder_pid is None)
    assert rows_of(spans(read(reader, picture(2))[0])[0]).shape == (16, WIDTH)
    until(lambda: reader.encoder_pid is None)
    assert reader.counters.crashes == 0


def test_a_broken_file_is_an_error_and_one_of_the_past_a_text_in_its_place(
    loaded: Library, media_model: MakeModel, tmp_path: Path
) -> None:
    reader = open_test_reader(loaded, media_model("omni"), tmp_path)
    broken = as_file("image", picture().data[:60])
    found = answer(reader, broken)
    assert isinstance(found, InvalidParameter)
    found = answer(reader, _past(broken), picture(1))
    assert isinstance(found, list)
    omitted, seen = found
    assert isinstance(omitted, OmittedMedia)
    assert bytes(omitted.tokens).decode() == "[image omitted: it cannot be read]"
    assert omitted.note.startswith("messages: image omitted: the picture is broken")
    assert not isinstance(seen, OmittedMedia)
    assert len(spans(seen)) == 1


def _past(file: File) -> File:
    return file._replace(media=replace(file.media, is_past=True))
