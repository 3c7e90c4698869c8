"""Finds the CPU backend that works here and is fastest: tries each in a child process, trusting no CPU flags.

A child decodes the bundled model and must produce its recorded tokens. One that dies, hangs or miscalculates makes room
for the next; the result is remembered. Loads nothing into this process; see `library.load` for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from localllm.errors import InternalError, LoadFailed, LocalLLMError
from localllm.llama import backends
from localllm.llama.lacking import LOOKED_AT, MEDIA, QUANTIZE
from localllm.llama.library import CpuChoice
from localllm.llama.probes.selftest_child import Answer, Request
from localllm.llama.probes.selftest_memory import Memory, Outcome, Result, Trial
from localllm.llama.runtimes import found as runtimes
from localllm.llama.runtimes import in_packages, installed, wheel_files
from localllm.llama.runtimes.found import AUTO, PACKAGE, Runtime
from localllm.llama.runtimes.installed import InstalledBindings
from localllm.measuring import probe
from localllm.measuring.conditions import conditions_here
from localllm.system.programs import own_command

NUM_COMPARED = 3
"""Survivors to measure; a backend further down the list has never been seen to win."""
CLEARLY_FASTER = 1.25
"""Equal backends differed by 22 % on a busy machine; only a larger difference overrules their own order."""
TIMEOUT_S = 20.0
MODEL_PATH = Path(__file__).parents[2] / "data" / "selftest.gguf"
RECORDED_PATH = MODEL_PATH.with_suffix(".json")


class NothingWorks(LoadFailed):
    """No candidate survived. Details: `reason` (what was tried) and, if the package's own was among them, `command`
    (what to type)."""

    def __init__(self, tried: Sequence[Trial]) -> None:
        story = describe_all(tried) or "it has no CPU backend that this CPU can run"
        self.tried = tuple(tried)
        if tried and all(trial.choice.runtime != PACKAGE for trial in tried):
            start, remedy = (
                "what was installed does not work on this machine",
                "`localllm runtime list` shows all runtimes",
            )
            public = f"{start}; `localllm doctor` says more"  # the story may hold our paths
            super().__init__(f"{start}: {story}; {remedy}", public=public, reason=f"{start}: {story}")
            return
        error = installed.unusable(f"llama.cpp as installed does not work on this machine: {story}")
        super().__init__(error.message, reason=error.details["reason"], command=error.details["command"])


class RecordedRun(msgspec.Struct, frozen=True):
    """What tests/models/selftest_file.py computed without llama.cpp."""

    sha256: str
    """Digest of the model file."""
    prompt: tuple[int, ...]
    singles: tuple[int, ...]
    greedy: tuple[int, ...]


def child_command() -> list[str]:
    """The argv of a self-test child."""
    return own_command("localllm.llama.probes.selftest_child")


def choose(
    data_dir: Path,
    *,
    runtime: str = AUTO,
    needs: Sequence[str] = (),
    gpus: bool = False,
    architecture: str = "",
    fresh: bool = False,
    timeout_s: float = TIMEOUT_S,
    command: Sequence[str] | None = None,
) -> Outcome:
    """The runtime of that name and its best backend. `auto`: the chosen one, else the first that works, unless a later
    one is clearly faster; if some include the backends of `needs` or (`gpus`) that of any GPU, or know the
    `architecture`, it is one of these.

    A result remembered for a library, this CPU and this version is not tried again (about a second), unless `fresh`.
    Raises `NothingWorks`, or another `LoadFailed` if there is no library.
    """
    name = (runtimes.chosen(data_dir) or AUTO) if runtime == AUTO else runtime
    candidates = runtimes.usable(data_dir) if name == AUTO else [runtimes.named(name, data_dir)]
    if runtime == AUTO and (needs or gpus or architecture):
        candidates = _suitable(candidates, runtimes.listed(data_dir), needs, architecture, gpus=gpus)
    if not candidates:
        installed.find()  # raises, with the install command
    best: Outcome | None = None
    tried: list[Trial] = []
    for candidate in candidates:
        try:
            outcome = _remembered(data_dir, candidate, fresh, timeout_s, command or child_command())
        except NothingWorks as error:
            tried += error.tried
            continue
        tried += outcome.tried
        if best is None or outcome.trial.speed > best.trial.speed * CLEARLY_FASTER:
            best = outcome
        if installed.find(candidate.library).has_all_variants:
            break  # it has the best code for every CPU
    if best is None:
        raise NothingWorks(tried)
    return msgspec.structs.replace(best, tried=tuple(tried))


def choose_quantizing(data_dir: Path) -> Outcome:
    """Like `choose`, but one that can quantize. Raises `LoadFailed` if there is none."""
    outcome = choose(data_dir)
    if QUANTIZE not in outcome.trial.lacks:
        return outcome
    for each in runtimes.usable(data_dir):
        with contextlib.suppress(NothingWorks):
            other = choose(data_dir, runtime=each.name)
            if QUANTIZE not in other.trial.lacks:
                return other
    able = [each.name for each in wheel_files.offered() if each.quantizes]
    wheels = [f"`localllm runtime install {name}` brings one; " for name in able[:1]]
    raise LoadFailed(
        f"no llama.cpp on this machine can quantize; {''.join(wheels)}`localllm runtime build cpu` makes one (10 "
        "minutes, with a C++ compiler)"
    )


def _suitable(
    candidates: list[Runtime],
    listed: Sequence[runtimes.RuntimeRow],
    needs: Sequence[str],
    architecture: str,
    *,
    gpus: bool,
) -> list[Runtime]:
    """The candidates if each has the backends and knows the architecture; else those that do, or at least have the
    backends."""
    usable = {each.runtime: each for each in listed if not each.why_not}
    bringing = [each for each in usable if not needs or backends.brings(each, needs)]
    if gpus:
        bringing = [each for each in bringing if usable[each].uses_gpus] or bringing
    knowing = [each for each in bringing if not architecture or usable[each].knows(architecture)]
    if all(each in knowing for each in candidates):
        return candidates
    return knowing or ([] if all(each in bringing for each in candidates) else bringing) or candidates


def known(data_dir: Path, runtime: Runtime) -> Outcome | None:
    """The runtime's remembered outcome; tries nothing. Raises `LoadFailed` if the runtime's files are gone."""
    recorded = msgspec.json.decode(RECORDED_PATH.read_bytes(), type=RecordedRun)
    return Memory(data_dir).get(_key(installed.find(runtime.library), recorded, runtime))


def lacks_media(data_dir: Path, runtime: str = AUTO) -> bool:
    """Whether the runtime that a load would use is known to have no libmtmd. Tries nothing, and does not raise."""
    name = (runtimes.chosen(data_dir) or AUTO) if runtime == AUTO else runtime
    try:
        candidates = runtimes.usable(data_dir) if name == AUTO else [runtimes.named(name, data_dir)]
        outcome = known(data_dir, candidates[0]) if candidates else None
    except LocalLLMError:
        return False
    return outcome is not None and MEDIA in outcome.trial.lacks


def _key(files: InstalledBindings, recorded: RecordedRun, runtime: Runtime) -> str:
    return conditions_here(library=files.selftest_key(), backend=runtime.name).key(recorded.sha256, *LOOKED_AT)


def _remembered(data_dir: Path, runtime: Runtime, fresh: bool, timeout_s: float, command: Sequence[str]) -> Outcome:
    recorded = msgspec.json.decode(RECORDED_PATH.read_bytes(), type=RecordedRun)
    files = installed.find(runtime.library)
    name = _key(files, recorded, runtime)
    memory = Memory(data_dir)
    if not fresh and (known := memory.get(name)) is not None:
        return known
    outcome = run(recorded, command, timeout_s, runtime)
    return memory.put(name, outcome)


def examine(runtime: Runtime) -> Outcome:
    """A complete self-test, whose result is not remembered. Raises `NothingWorks`, `LoadFailed`."""
    recorded = msgspec.json.decode(RECORDED_PATH.read_bytes(), type=RecordedRun)
    return run(recorded, child_command(), TIMEOUT_S, runtime)


def run(recorded: RecordedRun, command: Sequence[str], timeout_s: float, runtime: Runtime = PACKAGE) -> Outcome:
    """One complete self-test. Raises `NothingWorks`."""
    if hashlib.sha256(MODEL_PATH.read_bytes()).hexdigest() != recorded.sha256:
        raise InternalError(f"{MODEL_PATH} is damaged; install localllm again")
    if problem := in_packages.changed(runtime.library):
        raise NothingWorks([Trial(choice=CpuChoice(None, True, runtime), result="failed", detail=problem, seconds=0.0)])
    tried: list[Trial] = []
    for candidates in rounds(survey(command, timeout_s, runtime), runtime):
        for choice in candidates:
            tried.append(try_choice(choice, recorded, command, timeout_s))
            if sum(trial.result == "ok" for trial in tried) == NUM_COMPARED:
                break
        if (best := fastest(tried)) is not None:
            return Outcome(choice=best.choice, tried=tuple(tried))
    raise NothingWorks(tried)


def rounds(found: Answer, runtime: Runtime = PACKAGE) -> list[list[CpuChoice]]:
    """What to try, best first. The second round, with the safer setting, is for when nothing in the first survives."""
    names = [None] if found.linked_in else [name for name, score in found.variants if score > 0]
    return [[CpuChoice(name, extra_bufts, runtime) for name in names] for extra_bufts in (True, False)]


def fastest(tried: Sequence[Trial]) -> Trial | None:
    """The first that works, unless a later one is clearly faster."""
    best = None
    for trial in tried:
        if trial.result == "ok" and (best is None or trial.speed > best.speed * CLEARLY_FASTER):
            best = trial
    return best


def survey(command: Sequence[str], timeout_s: float, runtime: Runtime = PACKAGE) -> Answer:
    """The CPU backends of the library. Raises `LoadFailed` if not even these can be determined, `NothingWorks` if it
    is not the package's own."""
    answer, result, detail = _ask(Request(library=runtime.library), command, timeout_s)
    if answer is None and runtime != PACKAGE:
        # A library that is linked with backends of devices does not load without the devices' drivers.
        missing = backends.not_loaded(Path(runtime.library), detail) if detail else None
        choice = CpuChoice(None, True, runtime)
        raise NothingWorks([Trial(choice=choice, result=result, detail=str(missing or detail), seconds=0.0)])
    if answer is None:
        raise installed.unusable(
            f"the llama.cpp library cannot be used: asked for its backends, it {_VERBS[result]} ({detail})",
            public=f"the llama.cpp library cannot be used: asked for its backends, it {_VERBS[result]}",
        )
    return answer


def try_choice(
    choice: CpuChoice, recorded: RecordedRun, command: Sequence[str], timeout_s: float, *, measure: bool = True
) -> Trial:
    """Decode the bundled model with this choice in a child, and compare its tokens with the recorded ones."""
    request = Request(
        choice=choice,
        model_path=str(MODEL_PATH),
        prompt=recorded.prompt,
        singles=recorded.singles,
        measure=measure,
    )
    began = time.monotonic()
    answer, result, detail = _ask(request, command, timeout_s)
    seconds = round(time.monotonic() - began, 3)
    if answer is None:
        return Trial(choice=choice, result=result, detail=detail, seconds=seconds)
    if answer.greedy != recorded.greedy:
        num_wrong = sum(a != b for a, b in zip(answer.greedy, recorded.greedy, strict=False))
        num_wrong += abs(len(recorded.greedy) - len(answer.greedy))
        detail = f"{num_wrong} of {len(recorded.greedy)} tokens differ"
        return Trial(choice=choice, result="wrong", detail=detail, seconds=seconds)
    return Trial(
        choice=choice,
        result="ok",
        detail="",
        seconds=seconds,
        prefill_tokens_per_s=answer.prefill_tokens_per_s,
        decode_tokens_per_s=answer.decode_tokens_per_s,
        absent=answer.absent,
        lacks=answer.lacks,
        build=answer.build,
    )


_VERBS: dict[Result, str] = {
    "ok": "works",
    "died": "died",
    "hung": "did not answer",
    "wrong": "computes wrongly",
    "failed": "failed",
}


def describe(trial: Trial) -> str:
    """`zen4 works`, `linked-in died (signal SIGILL)`, followed by the device backends that do not load."""
    words = f"{trial.choice.label()} {_VERBS[trial.result]}" + (f" ({trial.detail})" if trial.detail else "")
    return "; ".join([words, *trial.absent])


def describe_all(trials: Sequence[Trial]) -> str:
    """Like `describe`, with candidates that failed for the same reason merged."""
    alike: dict[tuple[Result, str, tuple[str, ...]], list[Trial]] = {}
    for trial in trials:
        alike.setdefault((trial.result, trial.detail, tuple(trial.absent)), []).append(trial)
    return "; ".join(
        describe(first) if not others else f"{describe(first)}, and {len(others)} others likewise"
        for first, *others in alike.values()
    )


def _ask(request: Request, command: Sequence[str], timeout_s: float) -> tuple[Answer | None, Result, str]:
    """One child, one question: (answer, "ok", "") or (None, what happened, the detail)."""
    answer, failure = probe.ask(command, request, Answer, timeout_s)
    if failure is not None:
        return None, failure.kind, failure.detail
    if answer is not None and answer.error is not None:
        return None, "failed", answer.error
    return answer, "ok", ""
