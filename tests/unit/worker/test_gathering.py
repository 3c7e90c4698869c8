"""Deltas of several steps sent together: nothing is lost, late or out of order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InternalError
from localllm.types import Delta, Finish, PromptProgress, Timings, Usage
from localllm.worker.gathering import Gathering
from localllm.worker.messages import Deltas, Pong, Rejected, Up

INTERVAL_S = 0.016
END = Finish("stop", Usage(prompt_tokens=1, completion_tokens=1), Timings(0.0, 0.0, 0.0))


def token(*ids: int, text: str = "x") -> Deltas:
    return Deltas(0, tuple((id, Delta(text, 1)) for id in ids))


def end(id: int) -> Deltas:
    return Deltas(0, ((id, Delta("", 0, END)),))


def rejected(id: int) -> Rejected:
    return Rejected(id, InternalError("x").info())


def gathering(interval_s: float = INTERVAL_S) -> Gathering:
    gathering = Gathering()
    gathering.every(interval_s)
    return gathering


def test_the_first_token_and_the_end_go_at_once() -> None:
    gathered = gathering()
    assert gathered.put(token(1), 0.0) == [token(1)]
    assert gathered.put(token(2), 0.001) == [token(2)], "another answer's first"
    assert gathered.put(token(1, 2), 0.002) == []
    (together,) = gathered.put(end(1), 0.003)
    assert isinstance(together, Deltas)
    assert together.items == token(1, 2).items + end(1).items


def test_what_is_told_of_a_prompt_does_not_hold_its_first_token_back() -> None:
    gathered = gathering()
    progress = Deltas(0, ((1, Delta(progress=(PromptProgress(total=9, cached=0, computed=4, seconds=0.1, slot=0),))),))
    assert gathered.put(progress, 0.0) == [progress]
    assert gathered.put(progress, 0.001) == [progress]
    assert gathered.put(token(1), 0.002) == [token(1)]
    assert gathered.put(token(1), 0.003) == []


def test_what_was_held_goes_when_the_interval_is_over() -> None:
    gathered = gathering()
    gathered.put(token(1), 10.0)
    assert gathered.wait_s(10.0) is None
    gathered.put(token(1, text="a"), 10.004)
    gathered.put(token(1, text="b"), 10.008)
    wait_s = gathered.wait_s(10.008)
    assert wait_s is not None
    assert abs(wait_s - 0.008) < 1e-9
    (together,) = gathered.take(10.016)
    assert isinstance(together, Deltas)
    assert [delta.text for _, delta in together.items] == ["a", "b"]
    assert gathered.wait_s(10.016) is None


def test_a_slow_models_tokens_are_never_held() -> None:
    gathered = gathering()
    for step in range(5):
        assert gathered.put(token(1), step * 0.02) == [token(1)]


def test_without_an_interval_every_step_is_a_message() -> None:
    gathered = gathering(0.0)
    for _ in range(5):
        assert gathered.put(token(1), 0.0) == [token(1)]


def test_an_id_that_was_rejected_begins_anew() -> None:
    """As a request's second attempt does."""
    gathered = gathering()
    gathered.put(token(1), 0.0)
    gathered.put(rejected(1), 0.001)
    assert gathered.put(token(1), 0.002) == [token(1)]


@given(st.lists(st.tuples(st.sampled_from("tttter.p"), st.integers(1, 3), st.floats(0, 0.03))), st.floats(0, 0.05))
def test_any_messages_come_out_whole_in_order_and_in_time(
    steps: list[tuple[str, int, float]], interval_s: float
) -> None:
    gathered, now_s = gathering(interval_s), 0.0
    put: list[object] = []
    out: list[object] = []
    held_since: list[float] = []

    def sent(messages: list[Up]) -> None:
        for message in messages:
            out.extend(message.items if isinstance(message, Deltas) else [message])
        if messages:
            assert all(now_s - since <= interval_s + 1e-9 for since in held_since)
            held_since.clear()

    for number, (kind, id, pause_s) in enumerate(steps):
        until_s = now_s + pause_s
        if (wait_s := gathered.wait_s(now_s)) is not None and now_s + wait_s <= until_s:
            now_s += wait_s
            sent(gathered.take(now_s))
        now_s = until_s
        messages: dict[str, Up] = {
            "t": token(id, text=str(number)),
            "e": end(id),
            "r": rejected(id),
            "p": Pong(number, False, 0),
        }
        message = messages.get(kind, token(1, 2, 3, text=str(number)))
        put.extend(message.items if isinstance(message, Deltas) else [message])
        held_since.append(now_s)
        sent(gathered.put(message, now_s))
    sent(gathered.take(now_s))
    assert out == put
    assert gathered.wait_s(now_s) is None
