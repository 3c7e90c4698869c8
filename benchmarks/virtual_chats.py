"""Chats on a virtual clock: the real engine, and llama-server's policy for comparison, on steps of the same cost.

    python -m benchmarks.virtual_chats [--seeds N]

Two real servers differ by a tenth from round to round, more than most policies do. Here a step takes what a formula
says, so that a change of one percent shows within seconds; `engine` alone decides, without processes, HTTP or sampling.
More chats than slots, as in `benchmarks.serving`. Prints for each CPU and each range of answers' lengths tokens/s, time
to the first token (p50), the longest gap between two tokens of an answer, and steps of streams and of prompts.

The model of llama-server: every batch takes one token of each stream and as much of the prompts as fits, and is
computed to its end; a request enters any free slot, its own if that is free. It has no padding of idle slots.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from localllm.engine.backend import Segment, State
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.media import Extent
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.requests.terms import Due, Request
from localllm.engine.scheduling.cost import TILE, Part, passes
from localllm.llama.states.padding import fillers
from localllm.types import ResolvedSampling
from tests.fakes import FakeBackend

SLOTS, CAPACITY, BATCH, UBATCH = 8, 2048, 2048, 512
MOST_FILLED = 3_000
"""Cells that fillers of a gap may attend to, of a model of 135 M."""
VOCAB = 96


class Cost(NamedTuple):
    """Seconds of a step: each pass, each row, each cell that a row attends to; rows of a tile have their own rates."""

    a_pass: float
    row: float
    tiled_row: float
    look: float
    tiled_look: float

    def seconds(self, parts: Sequence[Part]) -> float:
        total = 0.0
        for together, rows in passes(parts, UBATCH):
            looks = sum(rows * (depth + rows / 2) for _, depth, _ in together)
            a_row, a_look = (self.tiled_row, self.tiled_look) if rows >= TILE else (self.row, self.look)
            total += self.a_pass + rows * len(together) * a_row + looks * a_look
        return total


CPUS = {
    "AVX-512": Cost(0.0295, 0.00124, 0.00124, 2.4e-6, 0.5e-6),
    "AVX2": Cost(0.035, 0.0030, 0.0022, 2.4e-6, 0.5e-6),
}
"""Fitted to logged steps of two server CPUs, 135 M, Q8_0 (benchmarks/log/scheduling.md#chats-on-a-virtual-clock)."""
NOISE = 0.03
"""Standard deviation of the logarithm of a step's time."""
BETWEEN_STEPS_S = 0.0015
SAVE_S = 0.002
"""Saving or restoring a state."""


class Workload(NamedTuple):
    """Chats that begin together; each next message arrives soon after the answer before it."""

    shortest: int
    """Tokens of an answer: evenly distributed from here ..."""
    longest: int
    """... to here."""
    chats: int = 12
    turns: int = 4
    first: int = 205
    """Rows of the first message."""
    message: int = 27
    """Rows of every other one, with the last token of the answer before it."""
    within_s: float = 0.014
    """A message arrives after half to all of this."""


class Figures(NamedTuple):
    num_tokens: int
    """Of all answers."""
    tokens_per_s: float
    ttft_p50_s: float
    longest_gap_s: float
    steps: tuple[int, int]
    """Of streams only, and with prompts."""


class Turn(NamedTuple):
    """A request that arrives at some time; the smaller number first, if two do at once."""

    arrives_s: float
    number: int
    chat: int
    turn: int
    num_tokens: int
    """Of its answer."""


class Clients:
    """Who asks next, and what they saw."""

    def __init__(self, workload: Workload, seed: int, began_s: float) -> None:
        self._workload = workload
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._began_s = began_s
        self._coming: list[Turn] = []
        self._times_s: list[list[float]] = []
        """When tokens came, by the numbers of turns."""
        self._turns: list[Turn] = []
        for chat in range(workload.chats):
            self._ask(chat, 0, began_s + 0.003 * chat)

    def _ask(self, chat: int, turn: int, arrives_s: float) -> None:
        num_tokens = self._random.randint(self._workload.shortest, self._workload.longest)
        asked = Turn(arrives_s, next(self._numbers), chat, turn, num_tokens)
        self._turns.append(asked)
        self._times_s.append([])
        heapq.heappush(self._coming, asked)

    @property
    def next_s(self) -> float | None:
        return self._coming[0].arrives_s if self._coming else None

    def arrived(self, now_s: float) -> list[Turn]:
        found = []
        while self._coming and self._coming[0].arrives_s <= now_s:
            found.append(heapq.heappop(self._coming))
        return found

    def got(self, number: int, now_s: float) -> None:
        """A token of the answer to that turn; with the last one, the chat's next message is on its way."""
        self._times_s[number].append(now_s)
        turn = self._turns[number]
        if len(self._times_s[number]) == turn.num_tokens and turn.turn + 1 < self._workload.turns:
            delay_s = self._workload.within_s * self._random.uniform(0.5, 1)
            self._ask(turn.chat, turn.turn + 1, now_s + delay_s)

    def figures(self, now_s: float, steps: tuple[int, int]) -> Figures:
        gaps = [after - before for times in self._times_s for before, after in itertools.pairwise(times)]
        firsts = [times[0] - turn.arrives_s for times, turn in zip(self._times_s, self._turns, strict=True)]
        num_tokens = sum(map(len, self._times_s))
        rate = num_tokens / (now_s - self._began_s)
        return Figures(num_tokens, rate, statistics.median(firsts), max(gaps), steps)


class VirtualBackend(FakeBackend):
    """A fake whose decodes take what a cost says."""

    def __init__(self, cost: Cost, seed: int) -> None:
        super().__init__(num_slots=SLOTS, slot_capacity=CAPACITY, batch_capacity=BATCH, ubatch_capacity=UBATCH)
        self._cost = cost
        self._noise = random.Random(seed)
        self.steps = [0, 0]

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        lengths = [len(cells) for cells in self.held]
        between = fillers(
            segments, lengths, slot_capacity=CAPACITY, batch_capacity=BATCH, most_cells=MOST_FILLED
        )  # what `LlamaBackend` computes beside the segments
        parts = [(one.slot, one.start, len(one.tokens)) for one in sorted((*segments, *between))]
        num_tokens = sum(len(segment.tokens) for segment in segments)
        self.steps[num_tokens > len(segments)] += 1
        seconds = self._cost.seconds(parts) * self._noise.lognormvariate(0, NOISE)
        self.token_s = seconds / num_tokens
        is_whole = super().decode(segments, within_s=within_s)
        self.now_s += BETWEEN_STEPS_S
        return is_whole

    def save(self, slot: int) -> bytes:
        self.now_s += SAVE_S
        return super().save(slot)

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None:
        self.now_s += SAVE_S
        super().restore(slot, state, length, extents)


class OurServer:
    """The engine, and what arrives while it computes."""

    def __init__(self, cost: Cost, seed: int) -> None:
        self.backend = VirtualBackend(cost, seed)
        self.engine = build_engine(
            self.backend, self._take, tiers=Tiers(ram_bytes=1 << 30), clock=lambda: self.backend.now_s
        )
        self.backend.during = self._receive
        self._random = random.Random(seed)
        self._clients: Clients | None = None
        self._requests: dict[int, tuple[Turn, Running]] = {}
        self._told: dict[int, int] = {}
        self._texts: dict[int, list[int]] = {}

    def run(self, workload: Workload, seed: int) -> Clients:
        """All chats, to their ends."""
        clients = self._clients = Clients(workload, seed, self.backend.now_s)
        self._workload = workload
        self._texts.clear()
        while clients.next_s is not None or self.engine.scheduler.has_work:
            if not self.engine.scheduler.has_work and clients.next_s is not None:
                self.backend.now_s = max(self.backend.now_s, clients.next_s)
            self._receive()
            self.engine.step()
        return clients

    def _receive(self) -> None:
        assert self._clients is not None
        for turn in self._clients.arrived(self.backend.now_s):
            count = self._workload.message - 1 if turn.turn else self._workload.first
            prompt = self._texts.get(turn.chat, []) + [self._random.randint(1, VOCAB) for _ in range(count)]
            request = Running(
                Request(
                    turn.number,
                    prompt,
                    sampling=ResolvedSampling(temperature=0),
                    max_tokens=turn.num_tokens,
                    due=Due(created_s=turn.arrives_s),
                )
            )
            self._requests[turn.number] = turn, request
            self._told[turn.number] = 0
            self.engine.submit(request)

    def _take(self, output: StepOutput) -> None:
        assert self._clients is not None
        assert not output.failures
        for number, _ in output.deltas:
            turn, request = self._requests[number]
            if request.progress.num_generated == turn.num_tokens:
                self._texts[turn.chat] = list(request.progress.tokens)
            for _ in range(self._told[number], request.progress.num_generated):
                self._clients.got(number, self.backend.now_s)
            self._told[number] = request.progress.num_generated


def ours(cost: Cost, workload: Workload, seed: int) -> Figures:
    """After a crowd from which the engine has learned what steps cost."""
    server = OurServer(cost, seed)
    server.run(Workload(24, 24, chats=SLOTS, turns=2), seed + 1)
    server.backend.steps = [0, 0]
    clients = server.run(workload, seed)
    of_streams, of_prompts = server.backend.steps
    return clients.figures(server.backend.now_s, (of_streams, of_prompts))


class Slot:
    """One of the modelled llama-server's: whose tokens it has, and what it works on."""

    def __init__(self) -> None:
        self.chat: int | None = None
        self.turn: Turn | None = None
        self.num_pending = self.num_left = 0


def theirs(cost: Cost, workload: Workload, seed: int) -> Figures:
    noise = random.Random(seed)
    clients = Clients(workload, seed, 0.0)
    slots = [Slot() for _ in range(SLOTS)]
    depths: dict[int, int] = {}
    waiting: list[Turn] = []
    now_s, steps = 0.0, [0, 0]
    while clients.next_s is not None or waiting or any(slot.turn for slot in slots):
        if clients.next_s is not None and not waiting and not any(slot.turn for slot in slots):
            now_s = max(now_s, clients.next_s)
        waiting += clients.arrived(now_s)
        while waiting and (free := [slot for slot in slots if slot.turn is None]):
            turn = waiting.pop(0)
            slot = next((one for one in free if one.chat == turn.chat), free[0])
            if slot.chat != turn.chat:
                now_s += SAVE_S * ((slot.chat is not None) + (turn.turn > 0))
            slot.chat, slot.turn = turn.chat, turn
            slot.num_pending = workload.message if turn.turn else workload.first
            slot.num_left = turn.num_tokens
        parts, room = [], BATCH - sum(slot.turn is not None and not slot.num_pending for slot in slots)
        for number, slot in enumerate(slots):
            if slot.turn is not None:
                count = min(slot.num_pending, room) if slot.num_pending else 1
                room -= count if slot.num_pending else 0
                parts.append((number, depths.get(slot.turn.chat, 0), count))
        steps[any(count > 1 for _, _, count in parts)] += 1
        now_s += cost.seconds(parts) * noise.lognormvariate(0, NOISE) + BETWEEN_STEPS_S
        for number, depth, count in parts:
            slot = slots[number]
            assert slot.turn is not None
            depths[slot.turn.chat] = depth + count
            slot.num_pending = max(0, slot.num_pending - count)
            if slot.num_pending:
                continue
            slot.num_left -= 1
            clients.got(slot.turn.number, now_s)
            if not slot.num_left:
                slot.turn = None
    return clients.figures(now_s, (steps[0], steps[1]))


LENGTHS = ((24, 24), (12, 36), (4, 80))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    servers: dict[str, Callable[[Cost, Workload, int], Figures]] = {"llama-server": theirs, "localllm": ours}
    for cpu, cost in CPUS.items():
        for shortest, longest in LENGTHS:
            print(f"{cpu}, answers of {shortest} to {longest} tokens")
            for name, server in servers.items():
                found = [server(cost, Workload(shortest, longest), seed) for seed in seeds]
                rate = statistics.mean(each.tokens_per_s for each in found)
                first = statistics.mean(each.ttft_p50_s for each in found)
                gap = statistics.mean(each.longest_gap_s for each in found)
                streams, prompts = (statistics.mean(each.steps[kind] for each in found) for kind in (0, 1))
                print(
                    f"  {name:12} {rate:6.1f} tokens/s, first token {first:.2f} s, longest gap {gap:.2f} s, "
                    f"{streams:.0f} steps of streams, {prompts:.0f} with prompts"
                )


if __name__ == "__main__":
    main()
