"""Action `mirror.drain`: wait until the target has all the source had; with the source lost, all that can still arrive.

Rules: a drain in a planned move ends with nothing missing, or does not end; a source that answers in part, as while a broker
restarts, has the deadline for a lost source to answer wholly. What a third cluster fills grows on; it is waited for as far as
it had come when its end was first seen. With the source gone it ends when nothing more
can arrive, or at the deadline for a lost source, and what is known to be missing is the least the RPO can be. What is unknown
is None, never a guess.
"""

import time
from collections.abc import Sequence
from typing import Final

from drlib.drill.actions.failover.data_loss import worst_s
from drlib.drill.actions.failover.observe_flow import ObservedFlow, observe_flow, partition_losses
from drlib.drill.actions.failover.triage_rules import Expected
from drlib.drill.actions.moving.other_copies import filled_by_others
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Seconds
from drlib.drill.step.flow_arguments import ProbeDeadline, ReadOnlyTargetAction, Shared
from drlib.drill.step.known_silence import AGAIN_S, ask_in_run
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Unreachable
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import PartitionOffsets
from drlib.runs.waiting import LOOK_S

_STILL_S: Final = 0.3  # without progress before the target counts as no longer growing
_MOST_READ: Final = 10_000  # offsets that may be read to see whether they are markers only


class DrainMirror(ProbeDeadline, ReadOnlyTargetAction):
    """Wait until the target has every record of the source; with the source lost, every record that can still arrive."""

    name = "mirror.drain"
    shared_topics = Shared.SOME

    expect: Expected = Expected.GONE
    """The state in which the operator expects the source. With `serving` a source that does not answer is an error."""
    deadline_s: Seconds = 60
    """How long to wait while the source serves; with the source lost, `probe_s` at most."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        began, mirrored, since = time.monotonic(), -1, -1.0
        answered = served = began
        begun: dict[TopicPartition, int] = {}
        lost_s = min(self.deadline_s, self.probe_s)
        answer = ask_in_run(self.context, [self.source_cluster], min(ANSWER_S, self.probe_s))[self.flow.source]
        silence = answer.why if isinstance(answer, Unreachable) else ""
        while True:
            state = observe_flow(self.context, self.flow, silence, AGAIN_S)
            if state.survey.target_error and time.monotonic() - answered < self.probe_s:
                abort.wait(LOOK_S)  # it may be busy: without it there is nothing to move to
                continue
            if state.survey.target_error:
                raise Unreachable(
                    f"{self.flow.target} gave no answer",
                    state.survey.target_error,
                    _remedy(state.survey.target_error, "Start its brokers, then see: drlib status."),
                )
            answered = time.monotonic()
            lost = state.survey.source_error or state.survey.source_partly
            gone = bool(lost)
            served = served if gone else answered
            if gone and self.expect is Expected.SERVING:
                if state.survey.source_partly and answered - served <= lost_s:
                    abort.wait(LOOK_S)
                    continue
                raise Unreachable(f"{self.flow.source} does not serve", lost, _remedy(lost, "Fail over instead."))
            awaited = self._awaited(state, begun) if self.expect is Expected.SERVING and not gone else state.behind
            if not gone and (self.expect is Expected.SERVING or not state.behind) and self._all_there(state, awaited):
                grown = sorted({p.topic for p in state.behind} - {p.topic for p in awaited})
                but = (
                    f", and of {first_few(grown)}, which another cluster fills, those of the beginning" if grown else ""
                )
                return self._done(state, 0, f"every record of the source is on the target{but}")
            there = state.survey.target_partly
            total = sum(p.mirrored for p in state.view.partitions)
            if total != mirrored:
                mirrored, since = total, time.monotonic()
            still = time.monotonic() - since > _STILL_S
            deadline_s = lost_s if gone else self.deadline_s
            late = time.monotonic() - began > deadline_s
            arrives = state.known_behind if state.survey.source_partly and state.view.members else []
            if gone and ((still and state.in_memory in (0, None) and not arrives) or late):
                known = state.not_mirrored
                return self._done(state, known, _end(state, late, deadline_s), gone=True)
            if self.expect is Expected.GONE and not gone and there and still and not state.known_behind:
                return self._done(state, None, f"nothing more can arrive, and {self.flow.target} has {there}")
            if late and self.expect is Expected.GONE and not gone and (there or state.not_mirrored is not None):
                why = f"{self.flow.source} answers and is still written to after {self.deadline_s:g} s"
                return self._done(state, state.not_mirrored, why)
            if late:
                behind = ", ".join(f"{p.topic}-{p.partition} by {p.lag if p.known else '?'}" for p in awaited[:5])
                behind = "; ".join(filter(None, (behind, there)))
                raise Unreachable(
                    "the mirror did not drain",
                    f"after {self.deadline_s:g} s it is behind: {behind or 'records in flight'}",
                    "See drlib status.",
                )
            abort.wait(LOOK_S)

    def _awaited(self, state: ObservedFlow, begun: dict[TopicPartition, int]) -> Sequence[PartitionStatus]:
        """The partitions that are behind; of those that a third cluster fills, the ones that lack what was there when their end
        was first seen, which `begun` keeps."""
        filled = filled_by_others(self.context.mirror_settings(), self.flow, {p.topic for p in state.view.partitions})
        for p in state.view.partitions:
            if p.topic in filled and p.known:
                begun.setdefault(TopicPartition(p.topic, p.partition), p.high_watermark)
        return [p for p in state.behind if p.mirrored < begun.get(TopicPartition(p.topic, p.partition), p.mirrored + 1)]

    def _all_there(self, state: ObservedFlow, awaited: Sequence[PartitionStatus]) -> bool:
        """Is what is left of the source's logs in the partitions `awaited` nothing but markers of transactions?"""
        if not state.view.partitions or state.not_mirrored is None or sum(p.lag for p in awaited) > _MOST_READ:
            return False
        if not awaited:
            return True
        if any(0 <= p.last_stable < p.high_watermark for p in awaited):
            return False  # a transaction is open
        ranges = {TopicPartition(p.topic, p.partition): Range(p.mirrored, p.high_watermark) for p in awaited}
        with Cluster(self.source_cluster) as cluster:
            return next(iter(cluster.read(ranges)), None) is None

    def _done(self, state: ObservedFlow, known: int | None, why: str, gone: bool = False) -> Evidence:
        losses = partition_losses(self.context, self.flow, state) if known != 0 or gone else ()
        least, most, basis = worst_s(losses) if known != 0 or gone else (0.0, 0.0, "")
        bounds = {(each.evidence.topic, each.evidence.partition): each for each in losses}
        rows: list[dict[str, Scalar]] = []
        parts: list[PartitionOffsets] = []
        for p in state.view.partitions:
            each = bounds.get((p.topic, p.partition))
            all_there = known == 0 and not gone
            spans: tuple[float | None, float | None, str]
            spans = (0.0, 0.0, "") if all_there else (None, None, "the target does not answer")
            if each is not None:
                spans = (each.at_least_s, each.at_most_s, each.basis)
            rows.append(
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    f"end on {self.flow.source}": p.high_watermark if p.known else None,
                    "mirrored to": p.mirrored,
                    f"end on {self.flow.target}": p.target_end,
                    "not mirrored": p.lag if p.known else None,
                    "seconds at least": spans[0],
                    "seconds at most": spans[1],
                    "basis": spans[2],
                }
            )
            parts.append(
                PartitionOffsets(
                    topic=p.topic,
                    partition=p.partition,
                    source_end=p.high_watermark if p.known else None,
                    mirrored_to=p.mirrored,
                    target_end=p.target_end,
                    unmirrored=p.lag if p.known else None,
                    at_least_seconds=spans[0],
                    at_most_seconds=spans[1],
                    basis=spans[2],
                )
            )
        self.show(rows)
        ends = sum(not p.known for p in state.view.partitions)
        self.score(ScorecardPart(partitions=tuple(parts)))
        in_part, there = state.survey.source_partly, state.survey.target_partly
        unknown = f"log ends of {ends} partitions on {self.flow.source}" if ends and not there else ""
        sides = [
            f"{self.flow.source}: {in_part}" if in_part else unknown,
            f"{self.flow.target}: {there}" if there else "",
        ]
        return {
            "not_determined": "; ".join(filter(None, sides)),
            "rpo_records": known,
            "rpo_seconds": most,
            **({} if least == most else {"rpo_seconds_at_least": least}),
            "rpo_at_least": gone,
            "rpo_why": basis,
            "why": why,
            "source": self.source_state(),
            "mirror": state.view.state,
        }


def _end(state: ObservedFlow, late: bool, deadline_s: float) -> str:
    """Why the wait ends, with the source lost as a whole or in part."""
    if late:
        held = "records that a worker holds" if state.in_memory else "the rest"
        return f"{held} did not arrive within {deadline_s:g} s"
    if state.in_memory == 0:
        return "nothing more can arrive: a worker reports it"
    return "nothing more can arrive: no worker answers, and the target has stopped growing"


def _remedy(why: str, otherwise: str) -> str:
    """What to do about a cluster that gives no answer because of `why`; `otherwise` where it does not refuse this host."""
    return "Correct that, and resume the run." if CANNOT_USE in why else otherwise
