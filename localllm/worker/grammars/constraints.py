"""Turns a request's structure into a constraint, or rejects it: compiled once, cached, copied.

A structure is first tried in a process of its own (`grammar_child`), then compiled for the model's vocabulary on a
thread here. Slow or long ones have a separate thread and process, so that ordinary requests do not wait for them. Both
processes start with the first structure that needs them. Knows nothing of prompts.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from localllm.engine.constraint.budget import UNLIMITED, ThoughtBudget
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.distinct import DistinctTracker
from localllm.engine.constraint.distinctness import Distinctness, TokenBytes
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.grammar.schema.shortest import Outline
from localllm.grammar.texts.literals import Literals
from localllm.system.threads import start_thread
from localllm.types.structures import GrammarLimits, Preface, Structure
from localllm.worker.grammars.closings import Closings, Vocabulary, bytes_of
from localllm.worker.grammars.grammar_child import Composed, GrammarChild
from localllm.worker.grammars.grammar_request import SpecialTokens, parser_limits
from localllm.worker.limited_child import OverLimit
from localllm.worker.refusals import errors_to

if TYPE_CHECKING:
    from llguidance import LLMatcher

SMALL_CHARACTERS = 16 * 1024
"""Sources up to this size never wait for larger ones."""
QUICK_S = 0.3
"""Time for an ordinary source; a slower one moves to the separate thread."""
MAX_KEPT = 128
"""Compiled structures in the cache."""
MAX_KEPT_CHARACTERS = 1_000_000
"""Limit for their sources: what is compiled may take sixty times as much."""

_NEVER_ROLLS_BACK = re.compile(r"\b(max_tokens|stop)\s*=")
"""Attributes of Lark rules: llguidance gives up no token of a grammar that has one."""

T = TypeVar("T")


Result = MatcherConstraint | LocalLLMError


class _Taker(NamedTuple):
    done: Callable[[Result], None]
    is_wanted: Callable[[], bool]


class _Key(NamedTuple):
    structure: Structure
    preface: Preface | None

    @property
    def size(self) -> int:
        return len(self.structure.source)


class _Template(NamedTuple):
    """Compiled, first mask computed, nothing consumed."""

    matcher: LLMatcher
    notes: tuple[str, ...]
    checks: str
    can_roll_back: bool
    outline: Outline


class Later(Generic[T]):
    """Something that a thread makes; calling it waits for the result and returns it, or raises the error."""

    def __init__(self, make: Callable[[], T], name: str) -> None:
        self._make = make
        self._is_done = threading.Event()
        self._error: LocalLLMError | None = None
        start_thread(self._run, name)

    def __call__(self) -> T:
        self._is_done.wait()
        if self._error is not None:
            raise self._error
        return self._made

    def _run(self) -> None:
        with errors_to(self._fail):
            self._made = self._make()
        self._is_done.set()

    def _fail(self, error: LocalLLMError) -> None:
        self._error = error


class Grammars:
    """For one model. `add` may be called on any thread."""

    def __init__(
        self,
        vocabulary: Callable[[], Vocabulary],
        limits: GrammarLimits,
        start_child: Callable[[GrammarLimits], GrammarChild] = GrammarChild,
    ) -> None:
        """`vocabulary` waits until it is made, or raises the reason why there is none."""
        self._vocabulary = vocabulary
        self.limits = limits
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Template] = OrderedDict()
        self._waiting: dict[_Key, list[_Taker]] = {}
        self._token_bytes: TokenBytes | None = None
        """Made for the first document that is checked while it is written."""
        self._closings = Closings(vocabulary, limits)
        start = partial(start_child, limits)
        self._slow = _Lane("slow-grammars", self, start)
        self._quick = _Lane("grammars", self, start, deadline_s=QUICK_S, slower=self._slow)

    def add(
        self,
        structure: Structure,
        preface: Preface | None,
        done: Callable[[Result], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Call `done`, on this thread or another, unless the request is no longer wanted. It must not raise."""
        most, param = self.limits.source_bytes, structure.param
        if len(structure.source.encode("utf-8", "surrogatepass")) > most:
            done(InvalidParameter(f"{param} takes at most {most} bytes here; send less", param=param))
            return
        key, taker = _Key(structure, preface), _Taker(done, is_wanted)
        with self._lock:
            template = self._kept.get(key)
            if template is None:
                takers = self._waiting.get(key)
                if takers is not None:
                    takers.append(taker)
                    return
                self._waiting[key] = [taker]
            else:
                self._kept.move_to_end(key)
        if template is not None:
            self._give(template, key, [taker])
        else:
            (self._quick if key.size <= SMALL_CHARACTERS else self._slow).put(key)

    def close(self) -> None:
        """End the processes after their current work."""
        for lane in (self._quick, self._slow):
            lane.close()

    def is_wanted(self, key: _Key) -> bool:
        """Whether any request waits for it; forgets it if not."""
        with self._lock:
            takers = self._waiting[key] = [taker for taker in self._waiting[key] if taker.is_wanted()]
            if not takers:
                del self._waiting[key]
            return bool(takers)

    def compile(self, key: _Key, written: Composed) -> None:
        """Compile a grammar that its process found valid. Raises `LocalLLMError`."""
        from llguidance import LLMatcher

        limits = parser_limits(self.limits)
        matcher = LLMatcher(self._vocabulary().tokenizer, written.grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise InvalidParameter(
                f"{key.structure.param} is too large or too complex to compile; simplify it", param=key.structure.param
            )
        matcher.compute_ff_tokens()
        can_roll_back = not _NEVER_ROLLS_BACK.search(written.grammar)
        template = _Template(matcher, written.notes, written.checks, can_roll_back, written.outline)
        self._keep(key, template)
        self._give(template, key, self._taken(key))

    def refuse(self, key: _Key, error: LocalLLMError) -> None:
        for taker in self._taken(key):
            taker.done(error)

    def special_tokens(self) -> SpecialTokens:
        """Special tokens that grammars may name. Raises `UnsupportedParameter`."""
        vocabulary = self._vocabulary()
        return SpecialTokens(vocabulary.size, vocabulary.special, vocabulary.end_tokens)

    def _taken(self, key: _Key) -> list[_Taker]:
        with self._lock:
            return self._waiting.pop(key, [])

    def _keep(self, key: _Key, template: _Template) -> None:
        with self._lock:
            self._kept[key] = template
            size = sum(kept.size for kept in self._kept)
            while len(self._kept) > MAX_KEPT or (size > MAX_KEPT_CHARACTERS and self._kept):
                size -= self._kept.popitem(last=False)[0].size

    def _give(self, template: _Template, key: _Key, takers: list[_Taker]) -> None:
        for taker in takers:
            if taker.is_wanted():
                taker.done(self._constraint(template, key))

    def _distinctness(self, template: _Template, preface: Preface | None) -> Distinctness | None:
        if not template.checks:
            return None
        vocabulary = self._vocabulary()
        if self._token_bytes is None:
            pieces = [*map(bytes_of(vocabulary), range(vocabulary.size))]
            self._token_bytes = TokenBytes(vocabulary.size, pieces.__getitem__, vocabulary.end_tokens)
        tracker = _tracker(template.checks, preface)
        return Distinctness(tracker, self._token_bytes, (vocabulary.size + 31) // 32 * 4)

    def _constraint(self, template: _Template, key: _Key) -> Result:
        vocabulary, param = self._vocabulary(), key.structure.param
        distinctness = self._distinctness(template, key.preface)
        try:
            with panics_as_errors():
                return MatcherConstraint(
                    template.matcher.deep_copy(),
                    num_tokens=vocabulary.size,
                    end_tokens=vocabulary.end_tokens,
                    param=param,
                    notes=template.notes,
                    budget=_budget(key.preface, vocabulary, is_followed=self._closings.closes(key.structure)),
                    distinctness=distinctness,
                    closing=self._closings.of(key.structure, template.outline, distinctness),
                    can_roll_back=template.can_roll_back,
                )
        except ConstraintFailed as failure:
            return InvalidParameter(f"{param}: {failure}", param=param)
        except InternalError as error:
            return error


def _tracker(checks: str, preface: Preface | None) -> DistinctTracker:
    """For a document behind this preface."""
    schema = json.loads(checks)
    if preface is None:
        return DistinctTracker(schema)
    thought, skipped = preface.thought, None
    if thought is not None:
        skipped = b"" if preface.is_open else thought.opening.strip().encode(), thought.closing.strip().encode()
    opening = "" if preface.text is None else preface.text.opening
    return DistinctTracker(schema, skipped=skipped, opening=opening.encode())


class _Lane:
    """A thread and the process it uses."""

    def __init__(
        self,
        name: str,
        grammars: Grammars,
        start_child: Callable[[], GrammarChild],
        *,
        deadline_s: float | None = None,
        slower: _Lane | None = None,
    ) -> None:
        """Work that takes longer than the deadline goes to the `slower` lane."""
        self._grammars = grammars
        self._start_child = start_child
        self._deadline_s = deadline_s
        self._slower = slower
        self._child: GrammarChild | None = None
        self._queue: queue.SimpleQueue[_Key | None] = queue.SimpleQueue()
        self._has_ended = threading.Event()
        start_thread(self._run, name)

    def put(self, key: _Key) -> None:
        self._queue.put(key)

    def close(self) -> None:
        self._queue.put(None)
        self._has_ended.wait()

    def _run(self) -> None:
        while (key := self._queue.get()) is not None:
            if self._grammars.is_wanted(key):
                with errors_to(partial(self._grammars.refuse, key)), panics_as_errors():
                    self._work(key)
        if self._child is not None:
            self._child.close()
        self._has_ended.set()

    def _work(self, key: _Key) -> None:
        try:
            written = self._write(key, self._deadline_s)
        except OverLimit:
            assert self._slower is not None
            self._slower.put(key)
        else:
            self._grammars.compile(key, written)

    def _write(self, key: _Key, deadline_s: float | None) -> Composed:
        special = self._grammars.special_tokens()
        self._child = self._child or self._start_child()
        return self._child.write(key.structure, key.preface, special, deadline_s=deadline_s)


def _budget(preface: Preface | None, vocabulary: Vocabulary, *, is_followed: bool) -> ThoughtBudget | None:
    """For reasoning with a limited number of tokens; None without a limit, unless it `is_followed`, or if the limit is
    zero."""
    if (
        preface is None
        or preface.thought is None
        or preface.budget == 0
        or (preface.budget is None and not is_followed)
    ):
        return None
    tokenizer = vocabulary.tokenizer
    opening, closing = preface.thought.opening, preface.thought.closing
    tokens: list[int] = []
    for part in Literals.of_vocabulary(vocabulary.special).segments(closing):
        tokens += [part] if isinstance(part, int) else tokenizer.tokenize_bytes(part.encode())
    return ThoughtBudget(
        UNLIMITED if preface.budget is None else preface.budget,
        opening=b"" if preface.is_open else opening.encode(),
        closing=closing.encode(),
        closing_tokens=tuple(tokens),
        bytes_of=bytes_of(vocabulary),
    )


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Rust panics are not subclasses of `Exception`, so they would end a thread."""
    try:
        yield
    except Exception:
        raise
    except BaseException as panic:
        raise InternalError("the grammar could not be compiled", reason=repr(panic)[:500]) from panic
