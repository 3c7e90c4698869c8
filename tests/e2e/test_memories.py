"""Chats with every kind of memory: little is computed again, and what was kept on the disk goes on after everything."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from localllm import LLM, SamplingParams
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter, LoadFailed
from localllm.types import GenerationRequest, MemoryKind, Message
from localllm.types.load_options import LoadOptions
from tests.homes import share_findings
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import CHATML

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
SYSTEM = Message("system", "You are a tiny model and know nothing of the world beyond these few words. " * 2)

FAMILIES: dict[MemoryKind, Callable[..., Path]] = {
    "attention": write_llama,
    "sliding window": families.write_sliding_window,
    "recurrent": families.write_hybrid,
}


@pytest.fixture(scope="module", params=FAMILIES)
def kind(request: pytest.FixtureRequest) -> MemoryKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(kind: MemoryKind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES[kind](tmp_path_factory.mktemp("memories") / "model.gguf", chat_template=CHATML)


def own_home(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory of the test's own."""
    monkeypatch.setenv("LOCALLLM_HOME", str(folder))
    share_findings(home, folder)


def loaded(model: Path, **options: object) -> LLM:
    return LLM(model, slots=2, threads=1, options=LoadOptions(**options))  # type: ignore[arg-type]


def test_a_chat_whose_answers_are_written_otherwise_computes_under_a_tenth_again(model: Path, kind: MemoryKind) -> None:
    """As where a template drops thoughts: what the model said is not what the next turn says that it said."""
    chat = [SYSTEM, Message("user", "Hello there, who are you, and what can you do for me on a day like this?")]
    repeated = computed_again = num_last = 0
    with loaded(model, ctx=512) as llm:
        assert llm.info.memory == kind
        for turn in range(5):
            usage = llm.chat(chat, params=GREEDY).finish.usage
            if turn:
                repeated += num_last
                computed_again += max(0, num_last - usage.cached_tokens)
            num_last = usage.prompt_tokens
            chat += [Message("assistant", f"Answer {turn}."), Message("user", f"And then? {turn}")]
        other = llm.chat([SYSTEM, Message("user", "Something else.")], params=GREEDY).finish.usage
        edited = llm.chat([*chat[:-1], Message("user", "No, wait.")], params=GREEDY).finish.usage
    assert computed_again < 0.1 * repeated
    assert other.cached_tokens > 100, "the system message is shared"
    assert edited.cached_tokens > num_last - 20, "an edited message goes back to the turn before"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (families.write_sliding_window, ""),
        (families.write_gated_delta, ""),
        (families.write_short_conv, ""),
        (families.write_recurrent, "cannot roll back"),
        (families.write_hybrid, "cannot roll back"),
    ],
)
def test_a_memory_that_takes_back_some_rows_guesses_and_who_does_not_says_why(
    write: Callable[..., Path], reason: str, tmp_path: Path
) -> None:
    """Its answer is the one without guesses. How many are made depends on what its text repeats and what rows cost."""
    path, asked = write(tmp_path / "model.gguf"), SamplingParams(temperature=0, max_tokens=120, ignore_eos=True)
    with loaded(path, ctx=512) as llm:
        assert llm.info.speculation == ("off" if reason else "auto")
        assert reason in llm.info.speculation_reason
        assert bool(reason) == bool(llm.info.speculation_reason)
        answers = [llm.complete("one two one two one two " * 4, params=asked) for _ in range(3)]
    with loaded(path, ctx=512, speculation="off") as llm:
        plain = llm.complete("one two one two one two " * 4, params=asked)
        assert "as requested" in llm.info.speculation_reason
    assert {answer.text for answer in answers} == {plain.text}
    usages = [answer.finish.usage for answer in (*(answers if reason else ()), plain)]
    assert not any(usage.accepted_guesses + usage.rejected_guesses for usage in usages)


def test_a_chat_goes_on_after_a_crash_and_after_an_unload(
    model: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_home(home, tmp_path, monkeypatch)
    chat = [SYSTEM, Message("user", "Hello there, who are you, and what can you do for me on a day like this?")]
    with loaded(model, kv_disk_mb=100) as llm:
        before = llm.chat(chat, params=GREEDY)
        deadline = time.monotonic() + 30
        while not list((tmp_path / "kv").glob("*/*.kv")):
            assert time.monotonic() < deadline, "an idle conversation is not written"
            time.sleep(0.02)
        runtime = llm._llm._runtime
        assert runtime is not None
        os.kill(llm._run(runtime._supervisor.acquire("model")).pid, signal.SIGKILL)
    later = []
    for _ in ("after the crash", "after the unload"):
        chat += [Message("assistant", before.text), Message("user", "And then?")]
        with loaded(model, kv_disk_mb=100) as llm:
            answer = llm.chat(chat, params=GREEDY)
        assert answer.finish.usage.cached_tokens > before.finish.usage.prompt_tokens - 12
        later.append((tuple(chat), answer.text))
        before = answer
    with loaded(model) as llm:
        for asked, text in later:
            fresh = llm.chat(list(asked), params=GREEDY)
            assert fresh.text == text
            if asked == later[0][0]:
                assert fresh.finish.usage.cached_tokens == 0


def test_what_is_damaged_or_of_another_setting_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_home(home, tmp_path, monkeypatch)
    model = write_llama(tmp_path / "model.gguf", chat_template=CHATML, n_embd=128)
    chat = [SYSTEM, Message("user", "Hello there.")]
    with loaded(model, kv_disk_mb=100) as llm:
        whole = llm.chat(chat, params=GREEDY)
    with loaded(model, kv_disk_mb=100, kv_type="q8_0") as llm:
        assert llm.chat(chat, params=GREEDY).finish.usage.cached_tokens == 0
    with loaded(model, kv_disk_mb=100) as llm:
        again = llm.chat(chat, params=GREEDY)
    assert again.finish.usage.cached_tokens == whole.finish.usage.prompt_tokens - 1
    assert again.text == whole.text
    for path in (tmp_path / "kv").glob("*/*.kv"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with loaded(model, kv_disk_mb=100) as llm:
        anew = llm.chat(chat, params=GREEDY)
    assert anew.finish.usage.cached_tokens == 0
    assert anew.text == whole.text


def test_what_was_computed_without_flash_attention_goes_on_after_a_restart_and_only_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_home(home, tmp_path, monkeypatch)
    model = write_llama(tmp_path / "model.gguf", chat_template=CHATML, n_embd=128)
    chat = [SYSTEM, Message("user", "Hello there.")]
    with loaded(model, kv_disk_mb=100, flash_attn="off") as llm:
        assert (llm.info.flash_attn, llm.info.flash_attn_reason) == ("off", "as requested")
        whole = llm.chat(chat, params=GREEDY)
    with loaded(model, kv_disk_mb=100, flash_attn="on") as llm:
        assert llm.info.flash_attn == "on"
        assert llm.chat(chat, params=GREEDY).finish.usage.cached_tokens == 0, "values lie otherwise there"
    with loaded(model, kv_disk_mb=100, flash_attn="off") as llm:
        again = llm.chat(chat, params=GREEDY)
    assert again.finish.usage.cached_tokens == whole.finish.usage.prompt_tokens - 1
    assert again.text == whole.text


def test_which_attention_is_faster_is_measured_at_the_first_load_remembered_and_said_by_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_home(home, tmp_path, monkeypatch)
    monkeypatch.delenv("LOCALLLM_FLASH_ATTN")
    memory = tmp_path / "attention.json"
    memory.unlink(missing_ok=True)
    model = write_llama(tmp_path / "model.gguf", chat_template=CHATML, ctx=1024)
    with loaded(model) as llm:
        assert "measured" in llm.info.flash_attn_reason or "too slow here" in llm.info.flash_attn_reason
    outcomes = msgspec.json.decode(memory.read_bytes())["outcomes"]
    assert len(outcomes) == 1
    point = {"decode_with_s": 1.0, "decode_without_s": 0.5, "prompt_with_s": 1.0, "prompt_without_s": 0.5}
    figures = {"points": [{"depth": 192, **point}, {"depth": 512, **point}], "attempts": 1}
    memory.write_bytes(msgspec.json.encode({"outcomes": dict.fromkeys(outcomes, figures)}))
    with (
        Sidecar.start([str(model), "--slots", "2", "--threads", "1"]) as sidecar,
        httpx.Client(base_url=sidecar.url, headers={"x-api-key": sidecar.token}, trust_env=False) as http,
    ):
        (entry,) = [entry for entry in http.get("/v1/models").json()["data"] if entry["loaded"]]
        answer = http.post("/v1/completions", json={"model": entry["id"], "prompt": "Hello", "max_tokens": 2})
    assert entry["flash_attn"] == "off", "as remembered"
    assert "decoding 0.50 x as fast behind 512 tokens" in entry["flash_attn_reason"]
    assert answer.json()["usage"]["completion_tokens"] > 0


def test_a_context_shifts_where_it_can_and_is_refused_where_it_cannot(model: Path, kind: MemoryKind) -> None:
    if kind != "attention":
        with pytest.raises((InvalidParameter, LoadFailed), match="context_shift"):
            loaded(model, context_shift=True).close()
        return
    with loaded(model, ctx=256, context_shift=True) as llm:
        chat = [SYSTEM, Message("user", "Tell me everything.")]
        made = llm.chat(chat, params=SamplingParams(temperature=0, max_tokens=400, ignore_eos=True))
        assert made.finish.usage.completion_tokens == 400
        assert made.finish.usage.shifted_tokens > 200
        again = llm.chat(chat, params=GREEDY)
        assert again.finish.usage.cached_tokens > 100, "the system message stayed where it was"
        assert made.text.startswith(again.text)


def test_a_unified_cache_answers_as_a_partitioned_one_and_says_why(tiny_chat_model: Path) -> None:
    texts = []
    for options in (LoadOptions(), LoadOptions(kv="unified"), LoadOptions(kv_cells=512), LoadOptions(kv_type="f16")):
        with LLM(tiny_chat_model, slots=2, threads=1, options=options) as llm:
            texts.append(llm.chat([SYSTEM], params=GREEDY).text)
            assert llm.info.kv == ("unified" if options.kv_cells or options.kv == "unified" else "partitioned")
            assert llm.info.kv_reason
    assert len(set(texts)) == 1
    with pytest.raises(InvalidParameter, match="kv_cells 256 is less"):
        LLM(tiny_chat_model, ctx=512, options=LoadOptions(kv_cells=256))


def test_a_salt_keeps_what_was_computed_for_those_who_know_it(model: Path) -> None:
    """And changes no answer."""

    def ask(llm: LLM, salt: str) -> tuple[str, int]:
        request = GenerationRequest(messages=(SYSTEM, Message("user", "Hello.")), params=GREEDY, cache_salt=salt)

        async def answer() -> tuple[str, int]:
            (answer,) = await llm._llm._loaded_runtime().submit(llm.info.id, [request])
            text = ""
            async for delta in answer:
                text += delta.text
                if delta.finish is not None:
                    return text, delta.finish.usage.cached_tokens
            raise AssertionError("no end")

        return llm._run(answer())

    with loaded(model, ctx=512) as llm:
        answers = [ask(llm, salt) for salt in ("", "one", "one", "another", "")]
    assert len({text for text, _ in answers}) == 1
    cached = [num_cached for _, num_cached in answers]
    assert cached[:2] == [0, 0]
    assert cached[2] > 50
    assert cached[3] == 0
