"""Step `mirror.drain`: wait until the target has all the source had; with the source gone, all that can still arrive.

Rules: a drain in a planned move ends with nothing missing, or does not end; with the source gone it ends when nothing more
can arrive, and what is known to be missing is the least the RPO can be. What nobody knows is None, never a guess.
Arguments: expect (gone, serving), deadline_s.
"""

from __future__ import annotations

import time
from typing import Final

from drlib.drill.actions.failover import flow_state as mirror_word
from drlib.drill.actions.failover.flow_state import FlowState
from drlib.drill.actions.failover.triage import expected
from drlib.drill.actions.failover.triage_rules import Expected
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.arguments import number
from drlib.drill.step.move_step import MovingStep, TargetStep
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.admin.reachability import who_answers
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.waiting import LOOK_S

_STILL_S: Final = 0.3  # between two looks at how far everybody is
_MOST_READ: Final = 10_000  # offsets that may be read to see whether they are markers only


class DrainMirror(TargetStep):
    """Wait until the target has all the source had; with the source gone, all that can still arrive."""

    def __init__(self, step: MovingStep) -> None:
        super().__init__(step)
        self.expected = expected(step.call)
        self.deadline_s = number(step.call, "deadline_s", 60)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        began, stands, at = time.monotonic(), -1, -1.0
        answer = who_answers([self.step.source])[self.step.flow.source]
        silence = answer.why if isinstance(answer, Unreachable) else ""
        while True:
            found = mirror_word.look(self.step.place, self.step.flow, silence)
            if found.survey.target_error:
                raise Unreachable(
                    f"{self.step.flow.target} gave no answer", found.survey.target_error, "Look at it first."
                )
            gone = bool(found.survey.source_error)
            if gone and self.expected is Expected.SERVING:
                raise Unreachable(f"{self.step.flow.source} is gone", found.survey.source_error, "Fail over instead.")
            if not gone and (self.expected is Expected.SERVING or not found.behind) and self._all_there(found):
                return self._done(found, 0, 0.0, "every record of the source is on the target")
            total = sum(p.mirrored for p in found.view.partitions)
            if total != stands:
                stands, at = total, time.monotonic()
            still = time.monotonic() - at > _STILL_S
            if gone and still and found.in_memory in (0, None):
                known = found.not_mirrored
                seconds = mirror_word.seconds_behind(self.step.place, self.step.flow, found)
                heard = (
                    "a worker says so" if found.in_memory == 0 else "no worker is heard, and the target stands still"
                )
                return self._done(found, known, seconds, f"nothing more can arrive: {heard}", gone=True)
            late = time.monotonic() - began > self.deadline_s
            if late and self.expected is Expected.GONE and not gone and found.not_mirrored is not None:
                seconds = mirror_word.seconds_behind(self.step.place, self.step.flow, found)
                why = f"{self.step.flow.source} answers and is still written to after {self.deadline_s:g} s"
                return self._done(found, found.not_mirrored, seconds, why)
            if late:
                behind = ", ".join(f"{p.topic}-{p.partition} by {p.lag}" for p in found.behind[:5])
                raise Unreachable(
                    "the mirror did not drain",
                    f"after {self.deadline_s:g} s it is behind: {behind or 'on the way'}",
                    "See drlib status, then resume.",
                )
            abort.wait(LOOK_S)

    def _all_there(self, found: FlowState) -> bool:
        """Is what is left of the source's logs nothing but markers of transactions?"""
        if not found.view.partitions or found.not_mirrored is None or found.not_mirrored > _MOST_READ:
            return False
        if not found.behind:
            return True
        if any(0 <= p.last_stable < p.high_watermark for p in found.behind):
            return False  # a transaction is open
        ranges = {TopicPartition(p.topic, p.partition): Range(p.mirrored, p.high_watermark) for p in found.behind}
        with Cluster(self.step.source) as cluster:
            return next(iter(cluster.read(ranges)), None) is None

    def _done(
        self, found: FlowState, known: int | None, seconds: float | None, why: str, gone: bool = False
    ) -> Evidence:
        rows: list[dict[str, Scalar]] = [
            {
                "topic": p.topic,
                "partition": p.partition,
                f"end on {self.step.flow.source}": p.high_watermark if p.known else None,
                "mirrored to": p.mirrored,
                f"end on {self.step.flow.target}": p.target_end,
                "not mirrored": p.lag if p.known else None,
            }
            for p in found.view.partitions
        ]
        self.step.show(rows)
        return {
            "rpo_records": known,
            "rpo_seconds": seconds,
            "rpo_at_least": gone and known is not None,
            "why": why,
            "source": self.step.source_word(),
            "mirror": found.view.state,
        }
