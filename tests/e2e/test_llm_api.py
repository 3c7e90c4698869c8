"""What an application's developer asks of `LLM`, `AsyncLLM` and `Models`, beside answers: a real worker, no HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import localllm
from localllm import (
    LLM,
    AsyncLLM,
    AsyncModels,
    Cancel,
    Cancelled,
    InvalidParameter,
    LoadOptions,
    Message,
    ModelEvent,
    ModelNotFound,
    Models,
    PullState,
    RequestTimeout,
    SamplingParams,
    Settings,
    Speculative,
    UnsupportedParameter,
)  # fmt: skip
from tests.homes import share_findings
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer

TIMEOUT_S = 60
GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
ENDLESS = SamplingParams(temperature=0)
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def llm(endless_model: Path) -> Iterator[LLM]:
    with LLM(endless_model, slots=1, threads=1, ctx=65536) as llm:
        yield llm


BAD_ARGUMENTS: list[tuple[str, Callable[[LLM], object]]] = [
    ("messages", lambda llm: llm.chat("Hello")),  # type: ignore[arg-type]
    ("messages", lambda llm: llm.chat({"role": "user", "content": "x"})),  # type: ignore[call-overload]
    ("messages", lambda llm: llm.chat([])),
    ("messages", lambda llm: llm.chat(None)),  # type: ignore[call-overload]
    ("messages[1]", lambda llm: llm.chat([*HELLO, "x"])),  # type: ignore[list-item]
    ("messages[0]", lambda llm: llm.chat([{"role": "user", "content": 3}])),
    ("messages[0]", lambda llm: llm.chat([{**HELLO[0], "images": "x"}])),
    ("messages[0]", lambda llm: llm.chat([Message("user", None)])),  # type: ignore[arg-type]
    ("prompt", lambda llm: llm.complete(b"x")),  # type: ignore[call-overload]
    ("prompt", lambda llm: llm.complete(None)),  # type: ignore[call-overload]
    ("timeout", lambda llm: llm.chat(HELLO, timeout=-1)),
    ("timeout", lambda llm: llm.chat(HELLO, timeout=0)),
    ("timeout", lambda llm: llm.chat(HELLO, timeout=float("nan"))),
    ("timeout", lambda llm: llm.chat(HELLO, timeout="5")),  # type: ignore[call-overload]
    ("priority", lambda llm: llm.chat(HELLO, priority="x")),  # type: ignore[call-overload]
    ("priority", lambda llm: llm.chat(HELLO, priority=True)),
    ("priority", lambda llm: llm.chat(HELLO, priority=10**6)),
    ("batch", lambda llm: llm.chat(HELLO, batch=1)),  # type: ignore[call-overload]
    ("cache_prompt", lambda llm: llm.chat(HELLO, cache_prompt="no")),  # type: ignore[call-overload]
    ("prediction", lambda llm: llm.chat(HELLO, prediction=b"Hi")),  # type: ignore[call-overload]
    ("speculative", lambda llm: llm.chat(HELLO, speculative="off")),  # type: ignore[call-overload]
    ("speculative.n_max", lambda llm: llm.chat(HELLO, speculative=Speculative(n_max=65))),
    ("sources", lambda llm: llm.chat(HELLO, speculative=Speculative(sources=("x",)))),  # type: ignore[arg-type]
    ("cancel", lambda llm: llm.chat(HELLO, cancel=threading.Event())),  # type: ignore[call-overload]
    ("params", lambda llm: llm.chat(HELLO, params={"temperature": 0})),  # type: ignore[call-overload]
    ("stop", lambda llm: llm.chat(HELLO, params=SamplingParams(stop="END"))),  # type: ignore[arg-type]
    ("logit_bias", lambda llm: llm.chat(HELLO, params=SamplingParams(logit_bias={"x": 1.0}))),  # type: ignore[dict-item]
    ("top_k", lambda llm: llm.chat(HELLO, params=SamplingParams(top_k=1.5))),  # type: ignore[arg-type]
    ("top_k", lambda llm: llm.complete("x", top_k=1.5)),  # type: ignore[call-overload]
    ("stop", lambda llm: llm.chat(HELLO, stop="END")),  # type: ignore[call-overload]
    ("temperature", lambda llm: llm.chat(HELLO, temperature=-1)),
    ("temperature", lambda llm: llm.chat(HELLO, temperature=0, params=GREEDY)),
    ("text", lambda llm: llm.tokenize(3)),  # type: ignore[arg-type]
    ("tokens", lambda llm: llm.detokenize("x")),  # type: ignore[arg-type]
    ("tokens", lambda llm: llm.detokenize([1.5])),  # type: ignore[list-item]
    ("tokens", lambda llm: llm.detokenize([999_999])),
    ("messages", lambda llm: llm.count_tokens(3)),  # type: ignore[arg-type]
    ("input", lambda llm: llm.embed("x")),
    ("input", lambda llm: llm.embed(["x", [1]])),  # type: ignore[arg-type]
    ("dimensions", lambda llm: llm.embed(["x"], dimensions="2")),  # type: ignore[arg-type]
    ("timeout", lambda llm: llm.embed(["x"], timeout=-1)),
    ("query", lambda llm: llm.rerank(3, ["x"])),  # type: ignore[arg-type]
    ("documents", lambda llm: llm.rerank("x", "x")),
    ("documents[0]", lambda llm: llm.rerank("x", [3])),  # type: ignore[list-item]
    ("top_n", lambda llm: llm.rerank("x", ["x"], top_n=0)),
    ("ctx", lambda _: LLM("demo", ctx="big")),  # type: ignore[arg-type]
    ("gpu_layers", lambda _: LLM("demo", gpu_layers="some")),  # type: ignore[arg-type]
    ("slots", lambda _: LLM("demo", slots=0)),
    ("model", lambda _: LLM(3)),  # type: ignore[arg-type]
    ("home", lambda _: LLM("demo", home="")),
    ("home", lambda _: LLM("demo", home="x", settings=Settings())),
    ("settings", lambda _: LLM("demo", settings={})),  # type: ignore[arg-type]
    ("options", lambda _: LLM("demo", options={})),  # type: ignore[arg-type]
    ("kv_ram_mb", lambda _: LLM("demo", options=LoadOptions(kv_ram_mb=1.5))),  # type: ignore[arg-type]
    ("on_event", lambda _: LLM("demo", on_event="x")),  # type: ignore[arg-type]
    ("on_progress", lambda _: LLM("demo", on_progress=3)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("param", "ask"), BAD_ARGUMENTS)
def test_a_wrong_argument_is_named_before_anything_is_sent(llm: LLM, param: str, ask: Callable[[LLM], object]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ask(llm)
    assert caught.value.param == param
    assert len(caught.value.message) > 20


def test_an_unknown_keyword_is_a_type_error_that_names_it(llm: LLM) -> None:
    with pytest.raises(TypeError, match="temprature"):
        llm.chat(HELLO, temprature=0)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="ctxt"):
        LLM("demo", ctxt=512)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="max_token"):
        SamplingParams(max_token=3)  # type: ignore[call-arg]


def test_fields_of_the_sampling_params_may_be_keywords_of_the_call(llm: LLM) -> None:
    asked = llm.chat(HELLO, params=GREEDY)
    assert str(llm.chat(HELLO, temperature=0, max_tokens=4, ignore_eos=True)) == str(asked) == asked.text
    long = SamplingParams(temperature=0, ignore_eos=True)
    assert llm.complete("x", params=long, max_tokens=2, stop=["zz"]).finish.usage.completion_tokens == 2


def test_arguments_come_in_the_types_that_people_have_at_hand(llm: LLM) -> None:
    turns = ({"role": "user", "content": "Hello", "name": None} for _ in range(1))
    assert llm.chat(turns, params=GREEDY).finish.reason == "length"  # type: ignore[call-overload]
    tokens = np.array(llm.tokenize("Hello"))
    assert llm.detokenize(tokens, special=False).strip() == "Hello"  # type: ignore[arg-type]
    assert llm.embed(text for text in ("a", "b")).shape[0] == 2  # type: ignore[arg-type]
    listed: Any = SamplingParams(stop=["zz"], max_tokens=4, temperature=0, ignore_eos=True)  # type: ignore[arg-type]
    assert llm.chat(HELLO, params=listed).finish.reason == "length"


def test_a_timeout_ends_what_runs_and_refuses_what_waits(llm: LLM) -> None:
    chat = llm.chat(HELLO, params=ENDLESS, timeout=0.5)
    assert chat.finish.reason == "timeout"
    assert chat.text
    with llm.complete("x", stream=True, params=ENDLESS) as running:
        next(running)
        with pytest.raises(RequestTimeout):
            llm.chat(HELLO, timeout=0.2)


def test_a_timeout_counts_while_the_model_is_started_again(
    tiny_chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localllm.runtime.runtime import Runtime

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    with LLM(tiny_chat_model, threads=1) as llm:
        monkeypatch.setattr(Runtime, "_session", never)
        for ask in (llm.chat, llm.rerank, llm.embed):
            with pytest.raises(RequestTimeout, match=r"0\.05 s"):
                ask(HELLO, timeout=0.05) if ask == llm.chat else (
                    llm.rerank("x", ["y"], timeout=0.05) if ask == llm.rerank else llm.embed(["x"], timeout=0.05)
                )


def test_a_lower_priority_number_is_served_first(llm: LLM) -> None:
    order: list[str] = []
    lock = threading.Lock()
    long = SamplingParams(temperature=0, max_tokens=256, ignore_eos=True)  # far longer than a thread takes to wake

    def ask(name: str, priority: int) -> None:
        llm.complete(name, params=long, priority=priority)
        with lock:
            order.append(name)

    async def num_waiting() -> int:
        return (await llm._llm._loaded_runtime().status(llm.info.id)).num_waiting

    with llm.complete("x", stream=True, params=ENDLESS) as running:
        next(running)
        threads = [threading.Thread(target=ask, args=pair) for pair in (("late", 5), ("first", -5))]
        for count, thread in enumerate(threads, 1):
            thread.start()
            while llm._run(num_waiting()) < count:
                pass
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert order == ["first", "late"]


def test_a_request_is_answered_though_one_of_the_batch_class_has_the_only_slot_and_that_goes_on(llm: LLM) -> None:
    async def parked() -> tuple[int, int]:
        status = await llm._llm._loaded_runtime().status(llm.info.id)
        return status.num_parked, status.preemptions.total

    with llm.complete("x", stream=True, params=ENDLESS, batch=True) as running:
        next(running)
        assert llm.complete("y", max_tokens=3, ignore_eos=True, timeout=TIMEOUT_S).finish.usage.completion_tokens == 3
        assert llm._run(parked())[1] == 1
        with llm.complete("z", stream=True, params=ENDLESS) as urgent:
            next(urgent)
            assert llm._run(parked()) == (1, 2)
        while llm._run(parked()) != (0, 2):
            next(running)


def test_a_prompt_may_be_computed_anew(llm: LLM) -> None:
    llm.complete("word " * 50, params=GREEDY)
    assert llm.complete("word " * 50, params=GREEDY).finish.usage.cached_tokens > 40
    assert llm.complete("word " * 50, params=GREEDY, cache_prompt=False).finish.usage.cached_tokens == 0


def test_an_answer_with_a_prediction_is_the_answer_without_guesses(llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)
    plain = llm.complete("Once upon a time", params=params, speculative=False)
    assert plain.finish.usage.accepted_guesses == plain.finish.usage.rejected_guesses == 0
    for given in (None, True, Speculative(sources=("prediction",))):
        assert (
            llm.complete("Once upon a time", params=params, prediction=plain.text, speculative=given).text == plain.text
        )


def test_a_source_of_guesses_that_the_model_lacks_is_refused(llm: LLM) -> None:
    with pytest.raises(UnsupportedParameter, match="has no draft model"):
        llm.chat(HELLO, params=GREEDY, speculative=Speculative(sources=("draft",)))


def test_tokens_are_counted_as_the_prompt_has_them(llm: LLM) -> None:
    for text in ("", "Hello, you", "<|im_end|>x"):
        if text:
            assert llm.count_tokens(text) == llm.complete(text, params=GREEDY).finish.usage.prompt_tokens
        messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": text}]
        assert llm.count_tokens(messages) == llm.chat(messages, params=GREEDY).finish.usage.prompt_tokens
    assert llm.count_tokens("") == len(llm.tokenize(""))
    assert llm.detokenize(llm.tokenize("Hello, you", add_special=False)).strip() == "Hello, you"


def test_events_tell_of_a_load_a_crash_and_the_return_on_the_llms_own_thread(tiny_chat_model: Path) -> None:
    events: list[ModelEvent] = []
    threads: set[str] = set()
    back = threading.Event()

    def on_event(event: ModelEvent) -> None:
        events.append(event)
        threads.add(threading.current_thread().name)
        if [each.kind for each in events].count("ready") == 2:
            back.set()
        raise ValueError("an application's mistake ends nothing")

    with LLM(tiny_chat_model, threads=1, on_event=on_event) as llm:
        assert llm.chat(HELLO, params=GREEDY).text
        assert [event.kind for event in events if event.kind != "loading"] == ["ready"]
        fractions = [event.fraction for event in events]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0
        (running,) = llm._llm._loaded_runtime().running()
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        assert back.wait(TIMEOUT_S)
        assert llm.chat(HELLO, params=GREEDY).text
    kinds = [event.kind for event in events if event.kind != "loading"]
    assert kinds == ["ready", "crashed", "restarted", "ready"]
    (crash,) = (event for event in events if event.kind == "crashed")
    assert "SIGKILL" in (crash.reason or "")
    assert {event.model for event in events} == {"tiny-chat"}
    assert threads == {"localllm"}


def test_events_of_an_async_model_come_on_its_loop_and_their_mistakes_are_logged(
    tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    threads: set[threading.Thread] = set()

    def on_event(event: ModelEvent) -> None:
        threads.add(threading.current_thread())
        raise ValueError(f"mistake at {event.kind}")

    def on_progress(_: float) -> None:
        raise ValueError("another")

    async def scenario() -> None:
        async with AsyncLLM(tiny_model, threads=1, on_event=on_event, on_progress=on_progress) as llm:
            assert (await llm.complete("x", params=GREEDY)).finish.reason == "length"

    with caplog.at_level(logging.ERROR, "localllm"):
        asyncio.run(scenario())
    assert threads == {threading.current_thread()}
    assert "on_event raised" in caplog.text
    assert "mistake at ready" in caplog.text
    assert "on_progress raised" in caplog.text


def test_a_callback_that_ends_its_thread_leaves_nobody_waiting(tiny_model: Path) -> None:
    def on_event(_: ModelEvent) -> None:
        raise SystemExit

    with LLM(tiny_model, threads=1, on_event=on_event) as llm:
        assert llm.complete("x", params=GREEDY).finish.reason == "length"


def test_a_home_of_its_own_isolates_from_the_users_environment_and_files(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, home = tmp_path / "user", tmp_path / "home"
    user.mkdir()
    (user / "config.toml").write_text("nonsense = 3\n")
    monkeypatch.setenv("LOCALLLM_HOME", str(user))
    monkeypatch.setenv("LOCALLLM_CTX", "nonsense")
    with pytest.raises(InvalidParameter, match="nonsense"):
        LLM(tiny_model)
    with LLM(tiny_model, threads=1, home=home) as llm:
        assert llm.info.ctx == 512
    assert [path.name for path in home.iterdir()] == ["selftest.json"]
    (home / "config.toml").write_text("ctx = 256\nslots = 3\n")
    with LLM(tiny_model, threads=1, home=str(home)) as llm:
        assert (llm.info.ctx, llm.info.slots) == (256, 3)
    with LLM(tiny_model, threads=1, settings=Settings(home=home, ctx=256, slots=2)) as llm:
        assert (llm.info.ctx, llm.info.slots) == (256, 2)
    own = Settings(home=home, slots=2)
    with LLM(tiny_model, threads=1, settings=own, options=LoadOptions(ctx=256)) as llm:
        assert (llm.info.ctx, llm.info.slots) == (256, 2)
    with LLM(tiny_model, threads=1, slots=1, options=LoadOptions(ctx=512), home=home) as llm:
        assert (llm.info.ctx, llm.info.slots) == (512, 1)
    assert [path.name for path in user.iterdir()] == ["config.toml"]


def test_everything_public_is_exported_and_importing_stays_free() -> None:
    from localllm import errors

    tree = {
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.LocalLLMError) and not name.startswith("_")
    }
    assert tree <= set(localllm.__all__)
    assert {
        "LoadOptions",
        "SamplingParams",
        "Finish",
        "Usage",
        "Timings",
        "Delta",
        "Chat",
        "Message",
        "Settings",
    } <= set(dir(localllm))
    for name in localllm.__all__:
        assert getattr(localllm, name).__class__ is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = localllm.nothing
    code = "import sys, localllm; dir(localllm); print([name for name in sys.modules if 'localllm.' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert done.stdout == "[]\n"


@pytest.fixture
def hub(tiny_chat_model: Path) -> Iterator[HubServer]:
    with HubServer({"maker/tiny": Repo({"tiny-Q8_0.gguf": tiny_chat_model.read_bytes()}, {"license": "mit"})}) as hub:
        yield hub


def hub_settings(hub: HubServer, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", hub_endpoint=hub.url)


NAME = "hf.co/maker/tiny:Q8_0"


def test_models_are_pulled_listed_shown_used_and_removed_without_a_server(
    hub: HubServer, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    share_findings(home, tmp_path / "home")
    models = Models(settings=hub_settings(hub, tmp_path))
    assert [model.id for model in models.list()] == ["demo"]
    states: list[PullState] = []
    threads: set[threading.Thread] = set()

    def on_progress(state: PullState) -> None:
        states.append(state)
        threads.add(threading.current_thread())

    pulled = models.pull(NAME, on_progress=on_progress)
    assert pulled.license == "mit"
    assert threads == {threading.current_thread()}
    assert states[0].phase == "looking"
    assert (states[-1].phase, states[-1].done_bytes) == ("done", pulled.size_bytes)
    assert [model.id for model in models.list()] == ["demo", pulled.id]
    shown = models.show(NAME)
    assert (shown.id, shown.info.context_length, shown.entry) == (pulled.id, 512, pulled)
    assert models.show("demo").info.num_parameters > 0
    assert models.show(shown.path).id.startswith("sha256")
    with LLM(NAME, threads=1, settings=hub_settings(hub, tmp_path)) as llm:
        assert llm.chat(HELLO, params=GREEDY).text
    models.remove(NAME)
    assert [model.id for model in models.list()] == ["demo"]
    assert not list((tmp_path / "home" / "models" / "blobs").iterdir())
    for ask in (models.show, models.remove):
        with pytest.raises(ModelNotFound):
            ask(NAME)
    with pytest.raises(InvalidParameter, match="name"):
        models.pull(3)  # type: ignore[arg-type]
    with pytest.raises(ModelNotFound):
        models.pull("hf.co/maker/nothing")


def test_models_are_managed_from_an_event_loop(hub: HubServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        models = AsyncModels(settings=hub_settings(hub, tmp_path))
        threads: set[threading.Thread] = set()
        pulled = await models.pull(NAME, on_progress=lambda _: threads.add(threading.current_thread()))
        assert threads == {threading.current_thread()}
        assert [model.id for model in await models.list()] == ["demo", pulled.id]
        assert (await models.show(NAME)).entry == pulled
        await models.remove(NAME)

    asyncio.run(scenario())


def _hold(hub: HubServer) -> tuple[threading.Event, threading.Event]:
    """The hub answers nothing until the second is set; the first says that it was asked."""
    asked, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> Answer:
        asked.set()
        go_on.wait(TIMEOUT_S)
        return Answer(503)

    hub.scripted["/api/models/maker/tiny/revision/main"] = wait
    return asked, go_on


def test_a_pull_is_cancelled_from_another_thread_by_its_task_or_by_its_callback(hub: HubServer, tmp_path: Path) -> None:
    settings = hub_settings(hub, tmp_path)
    asked, go_on = _hold(hub)
    try:
        cancel = Cancel()

        def stop_it() -> None:
            asked.wait(TIMEOUT_S)
            cancel.cancel()

        threading.Thread(target=stop_it).start()
        with pytest.raises(Cancelled):
            Models(settings=settings).pull(NAME, cancel=cancel)
        with pytest.raises(Cancelled):
            Models(settings=settings).pull(NAME, cancel=cancel)

        async def scenario() -> None:
            asked.clear()
            pulling = asyncio.create_task(AsyncModels(settings=settings).pull(NAME))
            await asyncio.to_thread(asked.wait, TIMEOUT_S)
            pulling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await pulling

        asyncio.run(scenario())

        def stop(_: PullState) -> None:
            raise KeyboardInterrupt  # as Ctrl-C would

        with pytest.raises(KeyboardInterrupt):
            Models(settings=settings).pull(NAME, on_progress=stop)
        assert not [thread for thread in threading.enumerate() if thread.name == "localllm-pull"]
    finally:
        go_on.set()
