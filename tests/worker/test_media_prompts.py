"""Pictures in prompts: their rows stand where the template shows them, their bytes come once, and what a model does not
read is refused or noted. The reader, the vocabulary and the engine are stand-ins; the rest is real."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from localllm.chat.media_marks import MediaMark, new_marker
from localllm.engine.media import MediaRows
from localllm.errors import LocalLLMError
from localllm.types import (
    ChatFormat,
    Detail,
    GenerationRequest,
    LoadedModel,
    Media,
    MediaKind,
    Message,
    Rendering,
)  # fmt: skip
from localllm.types.states import MediaStatus
from localllm.worker.messages import Accepted, Call, File, NeedFiles, Rejected, Reply, Submit, Up
from localllm.worker.prompts.marked_text import MarkedText
from localllm.worker.prompts.preparer import Preparer
from localllm.worker.prompts.prompt_parts import MediaPieces, MissingFiles
from localllm.worker.prompts.rendering import Renderer
from localllm.worker.prompts.template_child import TemplateChild
from tests.waiting import until
from tests.worker.conftest import INFO

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p.type == 'image' %}<b><pad><e>{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTROL = ["<s>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<b>", "<pad>", "<e>"]
"""Token 256 and those after it; before are bytes."""
BEGIN, PAD, END = (256 + CONTROL.index(text) for text in ("<b>", "<pad>", "<e>"))
NUM_ROWS = 3
NO_MEDIA = "it has no projector; pull one with it"


class Vocab:
    """Implements `Tokenizer`: bytes and control tokens."""

    bos_text, eos_text = "<s>", ""
    end_tokens: tuple[int, ...] = ()
    infill_marks: ClassVar[dict[str, int | None]] = {}

    def tokenize_in_steps(
        self, text: str, *, add_special: bool = True, parse_special: bool = True, **_: object
    ) -> Iterator[list[int]]:
        yield [256] * add_special
        for part in re.split(f"({'|'.join(map(re.escape, CONTROL))})", text):
            yield [256 + CONTROL.index(part)] if parse_special and part in CONTROL else list(part.encode())

    def fewest_tokens(self, text: str) -> int:
        return len(text) // 10

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]:  # noqa: ARG002
        return list(tokens)

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def piece(self, token: int, *, special: bool) -> bytes:
        return self.token_bytes(token) or CONTROL[token - 256].encode() * special

    def fill_in_middle(self, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:  # noqa: ARG002
        return []


class Rows:
    """Implements `RowSource`."""

    rows = np.zeros((NUM_ROWS, 4), np.float32)
    failure: LocalLLMError | None = None
    encode_s, was_cached = 0.5, False

    def want(self, ready: Callable[[], None]) -> None:
        ready()


class Reader:
    """Implements `MediaReader`: three rows for each picture."""

    kinds: frozenset[MediaKind] = frozenset({"image"})

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.drops = False
        """Answers nothing, as for what is no longer wanted."""
        self.is_wanted: list[Callable[[], bool]] = []

    def add(
        self,
        media: Sequence[Media],
        files: Mapping[str, bytes],
        done: Callable[[Sequence[MediaPieces] | MissingFiles | LocalLLMError], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        self.known |= files
        self.is_wanted.append(is_wanted)
        if self.drops:
            return
        missing = {medium.digest for medium in media} - self.known.keys()
        result = MissingFiles((*missing,)) if missing else [self.pieces(medium.digest) for medium in media]
        threading.Thread(target=done, args=(result,)).start()

    def status(self) -> MediaStatus:
        return MediaStatus()

    def cut(self, *_: Any) -> None:
        raise NotImplementedError

    def pieces(self, digest: str) -> MediaPieces:
        return ((BEGIN,), MediaRows(ids_of(digest), NUM_ROWS, None, is_causal=True, source=Rows()), (END,))


def ids_of(digest: str) -> tuple[int, ...]:
    return tuple(-1000 * int(digest[0], 16) - row for row in range(1, NUM_ROWS + 1))


class TakingEngine:
    """Takes sequences and computes nothing."""

    def __init__(self) -> None:
        self.taken: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def clock(self) -> float:
        return 0.0

    def submit(self, sequence: Any) -> None:
        self.taken.put(sequence)

    def cancel(self, id: int) -> None:
        self.taken.put(id)


class Prepared:
    """A preparer, and what it sends."""

    def __init__(self, child: TemplateChild, reader: Reader | None, ctx: int = 500) -> None:
        self.sent: queue.SimpleQueue[Up] = queue.SimpleQueue()
        self.engine, self.reader = TakingEngine(), reader
        info = replace(INFO, chat_templates={"default": TEMPLATE}, vocabulary_size=300)
        model = LoadedModel(
            id="tiny", path="", info=info, ctx=ctx, slots=1, threads=1, layers_per_device={}, backend="", load_s=0,
            created_unix_s=0, memory="recurrent", format=ChatFormat(), no_media="" if reader else NO_MEDIA,
        )  # fmt: skip
        engine: Any = self.engine
        self.preparer = Preparer(model, Vocab(), Renderer(child), engine, self.sent.put, media=reader)

    def submit(self, id: int, *messages: Message, **fields: Any) -> None:
        self.preparer.submit(Submit(id, GenerationRequest(messages=messages, **fields)))

    def next(self) -> Up:
        return self.sent.get(timeout=20)

    def accepted(self) -> Any:
        """The next sequence."""
        message = self.next()
        assert isinstance(message, Accepted), message
        return self.engine.taken.get(timeout=20)


@pytest.fixture(scope="module")
def child() -> TemplateChild:
    return TemplateChild()


@pytest.fixture
def seeing(child: TemplateChild) -> Prepared:
    reader = Reader()
    reader.known = {digest * 64: b"" for digest in "ab"}
    return Prepared(child, reader)


def picture(digest: str, param: str = "messages[0].content[0]", kind: MediaKind = "image") -> Media:
    return Media(kind=kind, digest=digest * 64, num_bytes=1, param=param)


def user(*parts: str | Media) -> Message:
    return Message("user", "\n".join(part for part in parts if isinstance(part, str)), parts=parts)


def test_rows_stand_between_the_tokens_that_the_template_writes(seeing: Prepared) -> None:
    seeing.submit(1, user("<pad>A", picture("a"), "B", picture("b")), Message("assistant", "C"), user(picture("a")))
    sequence = seeing.accepted()
    a, b = ids_of("a"), ids_of("b")
    turn = [257, *b"<pad>A", BEGIN, *a, END, *b"B", BEGIN, *b, END]
    assert list(sequence.request.prompt) == [256, *turn, 258, *b"C", 257, BEGIN, *a, END, 258]
    assert [span.start for span in sequence.request.spans] == [9, 15, 23]
    assert [span.of.ids for span in sequence.request.spans] == [a, b, a]
    assert set(sequence.request.reuse.pauses) == {1 + len(turn) + 2, 1 + len(turn) + 2 + 6}


def test_the_bytes_of_a_picture_are_asked_for_once_and_in_the_name_of_one_that_waits(child: TemplateChild) -> None:
    prepared = Prepared(child, reader := Reader())
    prepared.submit(1, user(picture("a"), "?"))
    prepared.submit(2, user(picture("a"), "?"))
    assert prepared.next() == NeedFiles(1, ("a" * 64,))
    prepared.preparer.cancel(1)
    assert prepared.next() == NeedFiles(2, ("a" * 64,))
    prepared.next()  # the end of the first
    prepared.preparer.put(File("a" * 64, b"bytes"))
    assert prepared.accepted().id == 2
    assert reader.known == {"a" * 64: b"bytes"}
    prepared.submit(3, user("Again:", picture("a")))
    assert prepared.accepted().id == 3
    assert all(is_wanted() for is_wanted in reader.is_wanted[1:])
    prepared.preparer.cancel(3)
    assert prepared.engine.taken.get(timeout=20) == 3


def test_a_client_that_leaves_while_its_picture_is_read_and_asks_again_is_answered(seeing: Prepared) -> None:
    assert seeing.reader is not None
    seeing.reader.drops = True
    seeing.submit(1, user(picture("a"), "?"))
    until(lambda: bool(seeing.reader and seeing.reader.is_wanted))
    seeing.preparer.cancel(1)
    seeing.next()  # its end
    seeing.reader.drops = False
    seeing.submit(2, user(picture("a"), "?"))
    assert seeing.accepted().id == 2


def test_what_the_model_does_not_read_is_refused_in_the_turn_to_answer_and_noted_before(child: TemplateChild) -> None:
    blind = Prepared(child, None)
    blind.submit(1, user("?", picture("a", "messages[0].content[1]")))
    refused = blind.next()
    assert isinstance(refused, Rejected)
    assert refused.error.param == "messages[0].content[1]"
    assert refused.error.message == f"messages[0].content[1]: tiny cannot see images: {NO_MEDIA}"
    blind.submit(2, user("?", picture("a")), Message("assistant", "Red."), user("Sure?"))
    accepted = blind.next()
    assert isinstance(accepted, Accepted)
    assert "image omitted" in accepted.notes[0]
    seeing = Prepared(child, Reader())
    seeing.submit(3, user(picture("c", kind="audio")))
    deaf = seeing.next()
    assert isinstance(deaf, Rejected)
    assert "cannot hear audio" in deaf.error.message


def test_tokens_are_counted_with_rows_and_a_prompt_that_is_too_long_says_how_many_are_rows(
    child: TemplateChild,
) -> None:
    reader = Reader()
    reader.known["a" * 64] = b""
    prepared = Prepared(child, reader, ctx=20)
    messages = tuple(user(picture("a")) for _ in range(4))
    prepared.preparer.call(Call(1, "count", (messages, Rendering(), 0)))
    assert prepared.next() == Reply(1, (1 + 4 * (1 + 2 + NUM_ROWS) + 1, 4 * NUM_ROWS, 0))
    prepared.preparer.call(Call(2, "render", (messages[:1], Rendering())))
    assert prepared.next() == Reply(2, "<|user|>[image]<|assistant|>")
    prepared.submit(3, *messages)
    refused = prepared.next()
    assert isinstance(refused, Rejected)
    assert "resulted in 26 tokens" in refused.error.message
    assert f"take {4 * NUM_ROWS} of these tokens" in refused.error.message


def test_answers_to_one_prompt_share_its_rows(seeing: Prepared) -> None:
    for id in (1, 2):
        seeing.submit(id, user(picture("a")), detail=Detail(making=True))
    one, other = seeing.accepted(), seeing.accepted()
    assert one.request.spans[0].of.source is other.request.spans[0].of.source


def test_padding_is_that_of_a_pictures_place_also_behind_tokens_that_are_known() -> None:
    """As they are where a conversation goes on behind an answer."""
    texts = MarkedText(Vocab(), new_marker())
    pieces: dict[MediaMark, MediaPieces] = {}
    for digest, num_leading in ("a", 3), ("b", 0), ("c", 1):
        ids = tuple(range(-10 * int(digest, 16), -10 * int(digest, 16) + 5))
        rows = MediaRows(ids, 5, None, is_causal=False, source=Rows(), num_leading=num_leading, is_numbered=True)
        pieces[MediaMark("image", digest * 64, "auto")] = ((BEGIN,), rows, rows, (END,))

    def tokens(parts: Sequence[str | Media], num_before: int = 0) -> list[int]:
        steps = texts.steps(texts.joined(parts), add_special=not num_before, pieces=pieces, num_before=num_before)
        return [id for step in steps for id in step]

    for length in range(4):
        parts: list[str | Media] = [
            "x" * length,
            picture("a"),
            picture("b"),
            "y",
            picture("a"),
            picture("c"),
            "zz",
            picture("c"),
        ]
        whole = tokens(parts)
        for split in range(1, len(parts)):
            head = tokens(parts[:split])
            assert head + tokens(parts[split:], len(head)) == whole
        spans = texts.spans(texts.joined(parts), pieces, whole)
        assert spans is not None
        assert len(spans) == 10
        for each in spans:
            start, of = each.span.start, each.span.of
            assert tuple(whole[start : start + len(of.ids)]) == of.ids
            assert of.num_skipped == start % (of.num_leading + 1)
            assert len(of.ids) == of.num_positions == 5 - of.num_skipped
        assert texts.fewest_rows(texts.joined(parts), pieces) <= sum(len(each.span.of.ids) for each in spans)
        at = spans[2].span.start
        assert texts.spans(texts.joined(parts), pieces, [*whole[:at], whole[at] - 100, *whole[at + 1 :]]) is None
