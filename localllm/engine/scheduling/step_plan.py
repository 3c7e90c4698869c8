"""What one step is to do. Knows nothing of how that was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from localllm.engine.backend import Segment
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.cost import Part
from localllm.engine.speculation.proposals import Draft


class StepPlan(NamedTuple):
    """One decode: what to compute, in slot order."""

    segments: list[Segment]
    sequences: list[Sequence]
    """`sequences[i]` owns `segments[i]`."""
    drafts: Mapping[int, Draft] = {}
    """Tokens computed after the last token of a sequence, by sequence id."""
    is_weighed: bool = False
    """Whether its cost is to be learned: a step of streams for which the number of rows of each was chosen."""

    @property
    def adapters(self) -> AdapterSet:
        """What all of its sequences are computed under."""
        return self.sequences[0].progress.adapters_at(self.segments[0].start) if self.sequences else NO_ADAPTERS

    @property
    def parts(self) -> list[Part]:
        """The parts of the step as cost models take them."""
        return [(each.slot, each.start, len(each.tokens) + each.num_padding) for each in self.segments]

    def without_guesses(self) -> StepPlan:
        """The same plan with one row per sequence: forced tokens are taken one by one."""
        segments, drafts = [], {}
        for segment, sequence in zip(self.segments, self.sequences, strict=True):
            draft = self.drafts.get(sequence.id)
            if draft is None:
                segments.append(segment._replace(num_padding=0))
                continue
            if draft.forced:
                drafts[sequence.id] = Draft((), draft.forced[:1])
            num_outputs = 1 if not draft.forced or sequence.request.reported.logprobs is not None else 0
            segments.append(Segment(segment.slot, segment.start, segment.tokens[:1], num_outputs))
        return StepPlan(segments, self.sequences, drafts)

    def alone(self, index: int) -> StepPlan:
        """The part of the plan that computes only this segment."""
        sequence = self.sequences[index]
        drafts = {sequence.id: self.drafts[sequence.id]} if sequence.id in self.drafts else {}
        return StepPlan([self.segments[index]._replace(num_padding=0)], [sequence], drafts)
