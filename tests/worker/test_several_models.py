"""Several models at a time: shared loads, idle ones that leave, room made for others. Real child processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from localllm.errors import LoadConflict, LoadFailed, ModelNotFound, QueueFull, WorkerCrashed
from localllm.planning.draft_plan import DraftModel
from localllm.settings.config import Settings
from localllm.supervisor import managed, process
from localllm.supervisor.candidate import Candidate
from localllm.supervisor.session import Session
from localllm.supervisor.supervisor import Supervisor
from localllm.system import memory
from localllm.types import GenerationRequest, ModelDefaults
from localllm.types.load_options import LoadOptions
from tests.worker.conftest import INFO, bad_worker

TIMEOUT_S = 20
MIB = 2**20
Scenario = Callable[[Supervisor], Awaitable[None]]


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the next worker behaves."""
    arguments = ["behaves"]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(managed, "worker_command", lambda **_: bad_worker(*arguments))
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 2**30)
    return arguments


def candidate(id: str, release: Callable[[], None] = lambda: None) -> Candidate:
    return Candidate(id, Path(f"{id}.gguf"), INFO, ModelDefaults(), release)


def run(scenario: Scenario, settings: Settings | None = None) -> None:
    async def main() -> None:
        supervisor = Supervisor(settings or Settings())
        try:
            await asyncio.wait_for(scenario(supervisor), TIMEOUT_S)
        finally:
            await supervisor.aclose()

    asyncio.run(main())


async def load(supervisor: Supervisor, id: str, keep_alive_s: float = -1.0, *, stays: bool = False) -> None:
    await supervisor.load(candidate(id), LoadOptions(), keep_alive_s=keep_alive_s, stays=stays)


async def ask(session: Session) -> None:
    mailbox = session.submit(GenerationRequest(prompt="x")).mailbox
    while (await mailbox.get()).finish is None:
        pass


async def until(is_true: Callable[[], bool]) -> None:
    """Lets everything else run until then."""
    while not is_true():  # noqa: ASYNC110 (what is waited for tells nobody)
        await asyncio.sleep(0)


async def gone(supervisor: Supervisor, id: str) -> None:
    while any(model.id == id for model in supervisor.running()):
        await supervisor._news.wait()


def test_two_models_answer_side_by_side(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await asyncio.gather(load(supervisor, "a"), load(supervisor, "b"))
        first, second = await supervisor.acquire("a"), await supervisor.acquire("b")
        assert first.pid != second.pid
        await asyncio.gather(ask(first), ask(second))
        assert {model.id for model in supervisor.loaded()} == {"a", "b"}

    run(scenario)


def test_many_who_want_one_model_share_one_load(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        released: list[int] = []
        loads = (supervisor.load(candidate("a", lambda: released.append(1)), LoadOptions()) for _ in range(8))
        made = await asyncio.gather(*loads)
        assert len({id(one) for one in made}) == 1, "one process, and what it said"
        assert len(released) == 7, "whoever came later needs its file no more"
        await supervisor.unload("a")
        assert len(released) == 8

    run(scenario)


def test_a_model_leaves_when_nobody_asked_for_its_keep_alive_time(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a", 0.05)
        await load(supervisor, "b")
        await gone(supervisor, "a")
        assert [model.id for model in supervisor.running()] == ["b"]
        with pytest.raises(ModelNotFound):
            await supervisor.acquire("a")

    run(scenario)


def test_a_load_that_says_nothing_of_its_stay_leaves_it_as_it_is(mode: list[str]) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(Settings(model_keep_alive_s=77.0))
        await supervisor.load(candidate("new"), LoadOptions(), keep_alive_s=None, stays=False)
        await load(supervisor, "stays", -1.0)
        await supervisor.load(candidate("stays"), LoadOptions(), keep_alive_s=None, stays=False)
        new, stays = supervisor.running()
        assert new.expires_in_s == pytest.approx(77.0, abs=30)
        assert stays.expires_in_s is None
        await supervisor.aclose()

    asyncio.run(scenario())


def test_who_only_looks_at_a_model_does_not_keep_it(mode: list[str]) -> None:
    """As a Prometheus does that reads `/metrics` more often than the model may be idle."""

    async def scenario(supervisor: Supervisor) -> None:
        mode[:] = ["answers-calls"]
        await load(supervisor, "a", 60)
        before = supervisor.running()[0].idle_s
        await until(lambda: supervisor.running()[0].idle_s > before + 0.01)
        before = supervisor.running()[0].idle_s
        await supervisor.watched("a").call("status")
        assert supervisor.running()[0].idle_s >= before
        with pytest.raises(ModelNotFound):
            supervisor.watched("b")

    run(scenario)


def test_a_model_does_not_leave_while_it_answers_and_a_request_may_set_its_time(mode: list[str]) -> None:
    mode[:] = ["never-ends"]

    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a", 1000.0)
        session = await supervisor.acquire("a", 0.0)
        pending = session.submit(GenerationRequest(prompt="x"))
        await pending.mailbox.get()
        assert supervisor.running()[0].num_requests == 1
        assert supervisor.running()[0].expires_in_s is None
        pending.cancel()
        await gone(supervisor, "a")

    run(scenario)


def test_the_least_recently_used_idle_model_makes_room(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a")
        await load(supervisor, "b")
        await ask(await supervisor.acquire("a"))
        await load(supervisor, "c")
        assert [model.id for model in supervisor.running()] == ["a", "c"]

    run(scenario, Settings(max_loaded_models=2))


def test_many_who_want_one_model_evict_one(mode: list[str]) -> None:
    """Who comes while it is being unloaded waits for it, too, and evicts no other."""

    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a")
        await load(supervisor, "b")
        await asyncio.gather(*(load(supervisor, "c") for _ in range(3)))
        assert [model.id for model in supervisor.running()] == ["b", "c"]

    run(scenario, Settings(max_loaded_models=2))


def test_a_model_that_leaves_anyway_makes_room(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a")
        await load(supervisor, "b")
        leaving = asyncio.create_task(supervisor.unload("b"))
        await until(lambda: any(model.phase == "unloading" for model in supervisor.running()))
        await load(supervisor, "c")
        await leaving
        assert [model.id for model in supervisor.running()] == ["a", "c"]

    run(scenario, Settings(max_loaded_models=2))


def test_a_model_that_is_wanted_again_waits_until_its_last_process_is_gone(
    mode: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices' memory is counted by names: the old process gave up what the new one held."""
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.5)

    async def scenario(supervisor: Supervisor) -> None:
        mode[:] = ["ignores-termination"]
        await load(supervisor, "a")
        mode[:] = ["behaves"]
        leaving = asyncio.create_task(supervisor.unload("a"))
        await until(lambda: [model.phase for model in supervisor.running()] == ["unloading"])
        again = asyncio.create_task(load(supervisor, "a"))
        phases = set[tuple[str, ...]]()
        while not again.done():
            phases.add(tuple(model.phase for model in supervisor.running()))
            await asyncio.sleep(0)
        await again
        assert leaving.done()
        assert ("ready", "unloading") not in phases
        assert [(model.id, model.phase) for model in supervisor.running()] == [("a", "ready")]

    run(scenario)


def test_memory_decides_who_fits(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a")
        each_mb = supervisor.running()[0].memory_bytes / MIB
        assert 90 < each_mb < 130
        await load(supervisor, "b")
        await load(supervisor, "c")
        assert [model.id for model in supervisor.running()] == ["b", "c"]

    run(scenario, Settings(max_models_mb=250))


@pytest.mark.parametrize("wanted", ["auto", "d"])
def test_a_draft_that_nobody_named_is_left_out_where_only_the_model_fits(mode: list[str], wanted: str) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a", stays=True)
        draft = DraftModel("d", Path("d.gguf"), msgspec.structs.replace(INFO, size_bytes=300 * MIB))
        loading = supervisor.load(candidate("b")._replace(draft=draft), LoadOptions(draft=wanted), stays=False)
        if wanted != "auto":
            with pytest.raises(LoadConflict, match="b needs about"):
                await loading
            return
        loaded = await loading
        assert loaded.draft == ""
        assert "with it, b needs about 0.4 GB of memory" in loaded.draft_reason
        assert [model.memory_bytes < 130 * MIB for model in supervisor.running()] == [True, True]
        for id in ("a", "b"):
            await supervisor.unload(id)
        alone = await supervisor.load(candidate("c")._replace(draft=draft), LoadOptions(draft=wanted))
        assert alone.draft_reason == "with it, c needs more memory than is free"

    run(scenario, Settings(max_models_mb=250))


def test_a_busy_model_is_waited_for_and_takes_no_new_requests_meanwhile(mode: list[str]) -> None:
    mode[:] = ["never-ends"]

    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a")
        session = await supervisor.acquire("a")
        pending = session.submit(GenerationRequest(prompt="x"))
        await pending.mailbox.get()
        loading = asyncio.create_task(load(supervisor, "b"))
        await until(lambda: bool(supervisor._wanted))
        late = asyncio.create_task(supervisor.acquire("a"))
        await asyncio.sleep(0)
        assert not late.done(), "a stream of requests for a would keep b out for ever"
        assert not loading.done()
        pending.cancel()
        await loading
        assert [model.id for model in supervisor.running()] == ["b"]
        with pytest.raises(ModelNotFound):
            await late  # who asked loads it anew, after b

    run(scenario, Settings(max_loaded_models=1))


def test_a_model_that_was_named_at_the_start_is_not_put_out(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "a", stays=True)
        with pytest.raises(LoadFailed, match=r"a .* is pinned"):
            await load(supervisor, "b")
        assert [model.id for model in supervisor.running()] == ["a"]

    run(scenario, Settings(max_loaded_models=1))


def test_a_load_that_fails_tells_all_who_wait_and_leaves_nothing(mode: list[str]) -> None:
    mode[:] = ["dies-loading"]

    async def scenario(supervisor: Supervisor) -> None:
        released: list[int] = []
        loads = (supervisor.load(candidate("a", lambda: released.append(1)), LoadOptions()) for _ in range(3))
        results = await asyncio.gather(*loads, return_exceptions=True)
        assert all(isinstance(result, WorkerCrashed) for result in results)
        assert supervisor.running() == []
        assert len(released) == 3
        mode[:] = ["behaves"]
        await load(supervisor, "a")

    run(scenario)


def test_a_load_that_everybody_gives_up_leaves_nothing(mode: list[str]) -> None:
    mode[:] = ["hangs"]

    async def scenario(supervisor: Supervisor) -> None:
        tasks = [asyncio.create_task(load(supervisor, "a")) for _ in range(2)]
        await until(lambda: any(model.pid for model in supervisor.running()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert supervisor.running() == []

    run(scenario)


def test_too_many_who_wait_for_a_load_are_refused(mode: list[str]) -> None:
    mode[:] = ["hangs"]

    async def scenario(supervisor: Supervisor) -> None:
        tasks = [asyncio.create_task(load(supervisor, "a")) for _ in range(3)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(QueueFull):
            done.pop().result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario, Settings(max_waiting=1))


def test_less_context_than_is_loaded_never_reloads_and_more_says_what_to_do(mode: list[str]) -> None:
    async def scenario(supervisor: Supervisor) -> None:
        await supervisor.load(candidate("a"), LoadOptions(ctx=256))
        pid = supervisor.running()[0].pid
        await supervisor.load(candidate("a"), LoadOptions(ctx=128))
        assert supervisor.running()[0].pid == pid
        with pytest.raises(LoadFailed, match="loaded with slots 4; unload it"):
            await supervisor.load(candidate("a"), LoadOptions(slots=9))

    run(scenario)


def test_two_requests_for_two_models_with_room_for_one_are_both_answered(mode: list[str]) -> None:
    """Each has its model loaded, and neither loses it to the other before it is answered."""
    loads: list[str] = []

    async def wants(supervisor: Supervisor, id: str) -> None:
        with supervisor.claimed(id):
            while True:
                try:
                    session = await supervisor.acquire(id, is_claimed=True)
                    break
                except ModelNotFound:
                    loads.append(id)
                    await asyncio.create_task(load(supervisor, id))
                    await asyncio.sleep(0)
            answered = asyncio.ensure_future(ask(session))
            await asyncio.sleep(0)
        await answered

    async def scenario(supervisor: Supervisor) -> None:
        await load(supervisor, "c")
        await asyncio.gather(wants(supervisor, "a"), wants(supervisor, "b"))

    run(scenario, Settings(max_loaded_models=1))
    assert sorted(loads) == ["a", "b"]
