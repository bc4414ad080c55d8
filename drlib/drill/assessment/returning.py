"""The assessment before the way back of a failed-over flow, made from observations of both sides. Pure.

Rules: what is not known is None, with the reason, never 0. Which procedure fits what came back is decided by
`returned_rules`, what may begin by the flow's state. A way back that is done is not done again, one that was left on this
machine is continued, any other unfinished run has to be superseded by name. Where people moved the pointer home, none begins.
Nothing is settled while a worker of the flow runs.
Where both directions copy every topic nothing is settled at all, and workers run on.
Not for: asking (`observe_return`), showing (`drlib.ui.terminal.failover`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final

from drlib import formats
from drlib.drill.actions.failback.returned_rules import Procedure, SeenSource, Verdict, judge
from drlib.drill.actions.failover.triage_rules import Side
from drlib.drill.assessment.assessment import Next, left_run, supersede_means
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillEvent, DrillState, move
from drlib.drill.session.unfinished_runs import UnfinishedRun, UnfinishedRuns
from drlib.mirror.offsets.unreplicated.crossed import TopicCrossed
from drlib.model import Flow


class Stage(StrEnum):
    """A runbook of the way back."""

    REPROTECT = "reprotect"
    FAIL_BACK = "fail-back"


S = DrillState
STAGES: Final[Mapping[DrillState, tuple[Stage, ...]]] = {
    S.FAILED_OVER: (Stage.REPROTECT, Stage.FAIL_BACK),
    S.REPROTECTING: (Stage.REPROTECT, Stage.FAIL_BACK),
    S.REPROTECT_INCOMPLETE: (Stage.REPROTECT, Stage.FAIL_BACK),
    S.REPROTECTED: (Stage.FAIL_BACK,),
    S.FAILING_BACK: (Stage.FAIL_BACK,),
    S.FAILBACK_INCOMPLETE: (Stage.FAIL_BACK,),
}
"""What is left to run, by the flow's state; nothing in any other."""


@dataclass(frozen=True, slots=True)
class TopicTail:
    """The unreplicated records of one topic."""

    topic: str
    records: int
    bytes: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class TailRecord:
    """One unreplicated record, to look at; `key` as text, shortened."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOfReturn:
    """What an observation and its assessment have in common.

    `tail`: None where it was not asked or not determined, with `tail_why`; `examples`: some of its records; `read_there`: by
    group, how many of these records it had read on the source. `back_workers` and `back_missing`: of the flow back, its
    workers and the offsets that the source lacks; None: unknown, `back_why`. Of flows of MirrorMaker 2: `in_doubt`, how many
    of the records in `tail` the target may have; `back_mirror_maker`, whether it runs for the flow back, in words;
    `read_again`, by group, how many records it would read again at most, were it moved now, None: unknown, `read_again_why`.
    `both_ways`: both directions copy every topic under one name, so nothing is settled; then `read_again` is of these,
    `crossed` are the records that came late (None: unknown, `crossed_why`), and `read_there` how many of these each group had
    read on the source, or fewer with `read_there_at_most`.
    """

    at_ms: int
    pointer: str | None
    tail: tuple[TopicTail, ...] | None
    tail_why: str
    read_there: Mapping[str, int]
    examples: tuple[TailRecord, ...] = ()
    back_enabled: bool
    back_workers: int | None
    back_missing: int | None
    back_why: str
    next_step: str = ""
    in_doubt: int = 0
    back_mirror_maker: str = ""
    read_again: Mapping[str, int] | None = field(default_factory=dict)
    read_again_why: str = ""
    both_ways: bool = False
    crossed: tuple[TopicCrossed, ...] | None = None
    crossed_why: str = ""
    read_there_at_most: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReturn(KnownOfReturn):
    """What was asked at `at_ms`. `record`: of the flow on its target, as the opposite flow leaves it; None: it did not say.

    `source_why`: why what answers in the source's place is not determined, so that `seen` says nothing; empty where it is;
    `unanswered`: because a cluster did not answer a question. `workers`: of the flow itself. `one_way`: names are kept, so that
    the flow cannot be reversed.
    """

    flow: Flow
    file: str
    record: LeaseRecord | None
    record_why: str
    seen: SeenSource
    target: Side
    workers: int | None
    unfinished: UnfinishedRuns
    source_why: str = ""
    unanswered: bool = False
    folder_here: bool = False
    supersede: str = ""
    one_way: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnAssessment(KnownOfReturn):
    """What is known, and what comes next: `next`, `why` and `remedy`; `stages` are the runbooks that are left to run."""

    flow: str
    source: str
    target: str
    state: str
    since_ms: int
    by_run: str
    source_state: str
    found: str
    procedure: str
    found_why: str
    target_state: str
    unfinished: UnfinishedRun | None
    supersede_means: str
    stages: tuple[Stage, ...]
    next: Next
    why: str
    remedy: str
    unreachable: bool
    run: str = ""

    @property
    def tail_records(self) -> int | None:
        return None if self.tail is None else sum(topic.records for topic in self.tail)

    @property
    def settles(self) -> bool:
        """Does what is left to run settle unreplicated records, so that a choice is needed?"""
        return not self.both_ways and self.next is Next.BEGIN and Stage.REPROTECT in self.stages


def assess_return(seen: ObservedReturn) -> ReturnAssessment:
    """The assessment of what was observed."""
    verdict = judge(seen.seen, seen.file)
    run = seen.unfinished.of(str(seen.flow))
    state = None if seen.record is None else seen.record.state
    silent = seen.unanswered if seen.source_why else not seen.seen.side.answers
    made = ReturnAssessment(
        **{each.name: getattr(seen, each.name) for each in fields(KnownOfReturn)},
        flow=str(seen.flow),
        source=seen.flow.source,
        target=seen.flow.target,
        state="unknown" if state is None else state.value,
        since_ms=0 if seen.record is None else seen.record.since_ms,
        by_run="" if seen.record is None else seen.record.run,
        source_state="not determined" if seen.source_why else str(seen.seen.side),
        found="unknown" if seen.source_why else verdict.found.value,
        procedure="" if seen.source_why else verdict.procedure.value,
        found_why=seen.source_why or verdict.why,
        target_state=str(seen.target),
        unfinished=run,
        supersede_means="" if run is None else supersede_means(run),
        stages=() if state is None else STAGES.get(state, ()),
        next=Next.BEGIN,
        why="",
        remedy="",
        unreachable=not seen.target.answers or silent,
    )
    return _with_next(made, seen, verdict)


def _with_next(made: ReturnAssessment, seen: ObservedReturn, verdict: Verdict) -> ReturnAssessment:
    run, record = made.unfinished, seen.record
    if record is None:
        return replace(
            made,
            next=Next.REFUSE,
            why=f"{made.target} does not say where {made.flow} stands: {seen.record_why}",
            remedy=f"Restore {made.target} first, or see what it serves: drlib doctor {seen.file}.",
        )
    if not made.stages:
        return _without_stages(made, seen, record)
    if made.pointer == made.source and (Stage.REPROTECT in made.stages or record.state is S.REPROTECTED):
        return _gone_home(made, seen, record)
    if run is not None and run.run != seen.supersede:
        next_, why, remedy = left_run(run, "a way back", "this way back", seen.next_step, continues=seen.folder_here)
        made = replace(made, next=next_, why=why, remedy=remedy, run=run.run)
        if next_ is not Next.CONTINUE:
            return made
    elif run is not None:
        before = move(record.state, DrillEvent.SUPERSEDE)
        assert isinstance(before, DrillState)  # every unfinished state has this transition
        made = replace(made, stages=STAGES[before])
    if refusal := _refusal(made, seen, verdict):
        why, remedy = refusal
        return replace(made, next=Next.REFUSE, why=why, remedy=remedy)
    if made.next is Next.CONTINUE:
        return made
    follow = "follow" if len(made.stages) > 1 else "follows"
    return replace(made, why=f"{made.source} is {verdict.found}; {' and '.join(made.stages)} {follow}")


def _gone_home(made: ReturnAssessment, seen: ObservedReturn, record: LeaseRecord) -> ReturnAssessment:
    """Only a fail-back moves the pointer to the source, so people did: the steps would hold those that the source serves."""
    why = f"{made.flow} is {_recorded(record)}, but the pointer names {made.source}"
    remedy = (
        f"If the applications are there: drlib runs settle {seen.file} --flow '{made.flow}' --serves {made.source}. "
        f"If they are on {made.target}: drlib pointer move {seen.file} {made.target}, then the same command again."
    )
    return replace(made, next=Next.REFUSE, why=why, remedy=remedy)


def _recorded(record: LeaseRecord) -> str:
    """The flow's state, since when and by which run, in words."""
    since = f" since {formats.second(record.since_ms)} UTC" if record.since_ms else ""
    return f"{record.state}{since}{f', by run {record.run}' if record.run else ''}"


def _without_stages(made: ReturnAssessment, seen: ObservedReturn, record: LeaseRecord) -> ReturnAssessment:
    if made.unfinished is not None:
        run = made.unfinished
        why = f"{made.flow} is {run.state}, by run {run.run} ({run.mode}): it is not failed over yet"
        return replace(
            made,
            next=Next.SUPERSEDE_FIRST,
            why=why,
            remedy=f"End that first: drlib failover {seen.file} '{made.flow}'{'' if run.refused else f', or {run.resume}'}.",
            run=run.run,
        )
    if made.pointer == made.target:
        why = f"{made.flow} is {_recorded(record)}, but the pointer names {made.target}"
        remedy = (
            f"If the applications are there: drlib runs settle {seen.file} --flow '{made.flow}' --serves {made.target}, "
            "then the same command again."
        )
        return replace(made, next=Next.REFUSE, why=why, remedy=remedy)
    where = f", and the pointer names {made.pointer}" if made.pointer else ""
    return replace(made, next=Next.NOTHING, why=f"{made.flow} is {_recorded(record)}{where}", remedy="", run=record.run)


def _refusal(made: ReturnAssessment, seen: ObservedReturn, verdict: Verdict) -> tuple[str, str] | None:
    """Why the way back does not begin, and the remedy."""
    file, back = seen.file, seen.flow.reverse
    if not seen.target.serves:
        return f"{made.target} does not serve: {seen.target}", f"Restore {made.target} first."
    if seen.source_why:
        return (
            f"whether {made.source} is the cluster that failed, with its data, is not known: {seen.source_why}",
            "Remove the cause, then the same command again.",
        )
    settling = Stage.REPROTECT in made.stages
    if seen.one_way:
        new = f"{made.source}2"
        return (
            f"{made.flow} keeps the names of topics (IdentityReplicationPolicy), so {back} would copy copies in a cycle",
            f"{made.target} stays the source. In a copy of {file} call {made.source} {new}, use DefaultReplicationPolicy and "
            f"enable {made.target}->{new} alone; run drlib mirror with it, then: drlib run planned-switchover "
            f"COPY -p 'flow={made.target}->{new}'. What only {made.source} has stays there.",
        )
    if not verdict.go and (settling or verdict.procedure is Procedure.WAIT):
        return f"{made.source} is not what failed: {verdict.found}; {verdict.why}", verdict.remedy
    if not seen.back_enabled:
        return (
            f"{back} is not enabled in {file}, so nothing that is written on {made.target} would reach {made.source}",
            f"Set {back}.enabled = true and {back}.topics in {file}, restart drlib mirror {file}, then the same command again.",
        )
    if settling and seen.workers and seen.record is not None and seen.record.mode is Mode.PLANNED:
        return (
            f"{made.flow} was moved as planned, which left nothing to settle, and it is mirrored",
            f"Move back as planned: drlib run planned-switchover {file} -p 'flow={back}'.",
        )
    if seen.both_ways:
        return None
    if settling and seen.workers:
        return (
            f"{seen.workers} workers mirror {made.flow} and would append what only {made.source} has to mirror topics that "
            f"applications have read",
            "Stop them, and start them with this release, whose workers wait until the applications are back.",
        )
    if settling and seen.tail is None:
        return (
            f"what only {made.source} has is not known: {seen.tail_why}",
            "Remove the cause, then the same command again.",
        )
    return None
