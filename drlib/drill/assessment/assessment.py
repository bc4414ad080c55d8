"""The assessment before a failover, made from observations of both sides. Pure.

Rules: what is not known is None or UNKNOWN, with the reason, never 0 and never "none". The judgements are those of the steps
themselves: `triage_rules.advise` for which side serves, the readiness gate for the target, `supersede` for unfinished runs.
What comes next is decided here once: a failover that is done is not done again, an unfinished one on this machine is continued,
any other unfinished run has to be superseded by name.
Not for: asking (`observe`), showing (`drlib.ui.terminal.failover`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from drlib import formats
from drlib.drill.actions.failover.triage_rules import Advice, Expected, Side, advise
from drlib.drill.actions.groups.rules import LogBounds, decide
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.drill.readiness.checks.observations import (
    FlowObservation,
    ShareGroupSeen,
    SharesObserved,
    Unanswered,
    available,
)
from drlib.drill.readiness.score import MINIMUM, Readiness, Severity
from drlib.drill.session.unfinished_runs import UnfinishedRun, UnfinishedRuns
from drlib.drill.step.known_silence import Silence
from drlib.drill.testbed.failover_testbed import SILENT_EVENTS
from drlib.drill.witness.evidence import Answer, Finding, Place
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.mirror.offsets.mirror_maker.mirrored_by import NAME
from drlib.model import Flow, GroupTranslation, TopicPartition, TranslationKind

_MOVED: Final = frozenset({DrillState.FAILED_OVER, DrillState.REPROTECTED})
_RE_READ: Final = frozenset({TranslationKind.BEHIND, TranslationKind.BOUNDED})


class Gate(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Continues(StrEnum):
    """How a group continues on the target."""

    EXACTLY = "exactly"
    READS_AGAIN = "reads again"
    UNKNOWN = "unknown"


class Next(StrEnum):
    """What `drlib failover` does next."""

    BEGIN = "begin"
    CONTINUE = "continue"
    NOTHING = "nothing"  # it is done
    REFUSE = "refuse"
    SUPERSEDE_FIRST = "supersede first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was asked of a flow at `at_ms`. `record` and `pointer` are of the target, None where it did not say.

    `folder_here`: the folder of the flow's unfinished run is on this machine; `next_step`: the first step of it that is not
    done. `supersede`: the run that the operator gives up. `creates_topics`: the runbook has a step that creates topics.
    `seen`: what several places see of a source that does not answer this host; None where no other place was asked.
    `waited_s`: how long this host waited for a source that did not answer; None where it did. `silent`: parts of an answering
    source that did not answer.
    """

    flow: Flow
    at_ms: int
    host: str
    source: Side
    target: Side
    observation: FlowObservation
    readiness: Readiness
    record: LeaseRecord | None
    pointer: str | None
    unfinished: UnfinishedRuns
    folder_here: bool = False
    next_step: str = ""
    supersede: str = ""
    force_reason: str = ""
    creates_topics: bool = True
    seen: Finding | None = None
    waited_s: float | None = None
    silent: Mapping[str, Silence] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sighting:
    """From where the source does not answer, and since when (ms, by the clock there; None where that is not known)."""

    seen_from: str
    since_ms: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Loss:
    """`records` were on the source and not on the target as of `as_of_ms`; None: unknown. `why` says what that rests on."""

    records: int | None
    as_of_ms: int | None
    why: str


@dataclass(frozen=True, slots=True)
class GroupOutlook:
    """How one group continues. `re_reads`: at most, of what it had committed at `as_of_ms`; None where it is unknown."""

    group: str
    continues: Continues
    re_reads: int | None
    as_of_ms: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that is known before anything is changed. Lists with a reason beside them are empty where the reason is not."""

    flow: str
    at_ms: int
    source: str
    target: str
    source_state: str
    source_serves: bool
    unreachable: tuple[Sighting, ...]
    target_state: str
    target_answers: bool
    target_serves: bool
    gate: Gate
    gate_why: tuple[str, ...]
    loss: Loss
    groups: tuple[GroupOutlook, ...]
    groups_unknown: str
    missing_topics: tuple[str, ...]
    missing_topics_unknown: str
    creates_topics: bool
    pointer: str | None
    unfinished: UnfinishedRun | None
    unfinished_unknown: str
    supersede_means: str
    advice: Advice
    next: Next
    why: str
    remedy: str
    run: str = ""
    next_step: str = ""
    waited_s: float | None = None  # for a source that did not answer


def assess(seen: Observed) -> Assessment:
    """The assessment of what was observed."""
    gate, gate_why, gate_fix = _gate(seen.readiness)
    advice = _advice(seen, gate, gate_why, gate_fix)
    groups, groups_unknown = _groups(seen.observation.translations, _mirror_ends(seen), _left(seen))
    topics, topics_unknown = _missing_topics(seen.observation)
    run = seen.unfinished.of(str(seen.flow))
    made = Assessment(
        flow=str(seen.flow),
        at_ms=seen.at_ms,
        source=seen.flow.source,
        target=seen.flow.target,
        source_state=str(seen.source),
        source_serves=seen.source.serves,
        unreachable=_sightings(seen),
        target_state=str(seen.target),
        target_answers=seen.target.answers,
        target_serves=seen.target.serves,
        gate=gate,
        gate_why=gate_why,
        loss=_loss(seen),
        groups=(*groups, *_share_groups(seen.observation.shares, seen.target.alias)),
        groups_unknown=groups_unknown,
        missing_topics=topics,
        missing_topics_unknown=topics_unknown,
        creates_topics=seen.creates_topics,
        pointer=seen.pointer,
        unfinished=run,
        unfinished_unknown=dict(seen.unfinished.unknown).get(str(seen.flow), ""),
        supersede_means="" if run is None else supersede_means(run),
        advice=advice,
        next=Next.BEGIN,
        why=advice.why,
        remedy=advice.remedy,
        next_step=seen.next_step,
        waited_s=seen.waited_s,
    )
    return _with_next(made, seen)


def _with_next(made: Assessment, seen: Observed) -> Assessment:
    """`made` with what comes next, and why."""
    run, record = made.unfinished, seen.record
    moved = seen.pointer not in (None, made.source)  # one of neither cluster is left by a failover
    if run is None and record is not None and record.state in _MOVED and moved:
        since = f" since {formats.second(record.since_ms)} UTC" if record.since_ms else ""
        why = f"{made.flow} is failed over{since} by run {record.run}, and the pointer names {seen.pointer}"
        return replace(made, next=Next.NOTHING, why=why, remedy="", run=record.run)
    if run is not None and run.run != seen.supersede:
        ours = run.mode == Mode.EMERGENCY
        what = "a failover" if ours else f"a run in mode {run.mode}"
        next_, why, remedy = left_run(run, what, "this failover", seen.next_step, continues=seen.folder_here and ours)
        return replace(made, next=next_, why=why, remedy=remedy, run=run.run)
    return made if made.advice.go else replace(made, next=Next.REFUSE)


def left_run(run: UnfinishedRun, what: str, activity: str, next_step: str, *, continues: bool) -> tuple[Next, str, str]:
    """What comes next where `run` was left unfinished, why, and the remedy. `continues`: here, if no undo was refused."""
    begin = f"begin here: add {run.supersede} ({supersede_means(run)})."
    if run.refused:
        why = f"{what} of {run.flow} is {run.state}: the undo of step {run.refused} of run {run.run} was refused"
        return Next.SUPERSEDE_FIRST, why, f"To go on, {begin} Or, once nothing refuses that undo: {run.rollback}."
    if continues:
        why = f"run {run.run} of {activity} is {run.state} and continues at step {next_step or 'unknown'}"
        return Next.CONTINUE, why, ""
    where = f"in {run.folder} on {run.host or 'an unknown host'}" if run.folder else "in a folder that is not recorded"
    why = f"{what} of {run.flow} is {run.state}: run {run.run}, {where}"
    return Next.SUPERSEDE_FIRST, why, f"Continue it there: {run.resume}. Or {begin}"


def _advice(seen: Observed, gate: Gate, gate_why: Sequence[str], gate_fix: str) -> Advice:
    advice = advise(seen.source, seen.target, Expected.GONE, (), seen.force_reason, seen.seen)
    if not advice.go or gate is Gate.OPEN:
        return advice
    closed = f"the readiness gate is closed: {'; '.join(gate_why)}"
    if seen.force_reason:
        return Advice(True, f"forced, '{seen.force_reason}', although {closed}", "")
    return Advice(
        False, closed, gate_fix or f"See drlib doctor, or give a reason: --force-reason for {seen.flow.target}."
    )


def _gate(readiness: Readiness) -> tuple[Gate, tuple[str, ...], str]:
    """The gate of an emergency, what keeps it closed, and the first fix."""
    if readiness.source_silent:
        closed = readiness.emergency
        reasons = tuple(f"{f.title}: {f.entity + ': ' if f.entity else ''}{f.evidence}" for f in closed)
    elif readiness.ready(MINIMUM):
        return Gate.OPEN, (), ""
    else:
        closed = tuple(f for f in readiness.worst_first() if f.severity not in (Severity.OK, Severity.ADVICE))
        reasons = (
            f"readiness is {readiness.score} of 100, {MINIMUM} required",
            *(f"{f.title}: {f.evidence}" for f in closed[:3]),
        )
    return (Gate.CLOSED if closed else Gate.OPEN), reasons, closed[0].fix if closed else ""


def _sightings(seen: Observed) -> tuple[Sighting, ...]:
    if seen.source.serves:
        return ()
    asked = f"it does not serve, as asked at {formats.clock(seen.at_ms)[:8]} UTC"
    found = [Sighting(f"this host ({seen.host})", None, asked)]
    views = seen.seen.views if seen.seen is not None else ()
    found += [Sighting(f"{v.place} {v.name}", None, f"{v.source} there") for v in views if v.place is Place.WITNESS]
    status = seen.observation.mirror
    if isinstance(status, Unanswered):
        return (*found, Sighting("the mirror", None, f"unknown: {status.why}"))
    if (mirror_maker := status.view.mirror_maker) is not None:
        seen_ms = mirror_maker.source_seen_ms
        last = f"the last heartbeat that it mirrored is of {formats.clock(seen_ms)[:8]} UTC" if seen_ms else "unknown"
        return (*found, Sighting("MirrorMaker 2", None, f"{last}; {mirror_maker.words(status.view.at_ms)}"))
    since = [e.opened_ms for e in status.view.open_events if e.name in SILENT_EVENTS and e.opened_ms]
    if since:
        return (*found, Sighting("the mirror's workers", min(since), "fetching from it fails"))
    reached = [v for v in views if v.place is Place.MIRROR and v.source in (Answer.SERVES, Answer.PARTLY)]
    if reached:
        return (*found, Sighting("the mirror's workers", None, f"it {reached[0].source} there"))
    why = "they do not report that it is silent" if status.view.workers else "no worker answers"
    return (*found, Sighting("the mirror's workers", None, f"unknown: {why}"))


def _loss(seen: Observed) -> Loss:
    source, status = seen.flow.source, seen.observation.mirror
    if isinstance(status, Unanswered):
        return Loss(None, None, f"the mirror's progress is not known: {status.why}")
    view = status.view
    if view.lag is None and view.mirror_maker is not None:
        why = f"{NAME}, which does not keep where the logs of {source} ended: what it took after each last mirrored record"
        return Loss(None, None, why)
    if view.lag is None or not view.partitions:
        who = "its workers do not know" if view.workers else "no worker that answers knows"
        return Loss(None, None, f"{source} does not say where its logs end, and {who}")
    if seen.source.serves:
        return Loss(view.lag, view.as_of_ms or None, f"as {source} says now")
    as_of = view.as_of_ms or None
    when = f"after {formats.second(as_of)} UTC" if as_of else "since"
    return Loss(view.lag, as_of, f"and what {source} accepted {when}, which is not known")


def _mirror_ends(seen: Observed) -> Mapping[TopicPartition, int]:
    """Where the mirrors end that MirrorMaker 2 fills, while later commits of groups are not known; else nothing."""
    status = seen.observation.mirror
    if seen.source.serves or isinstance(status, Unanswered) or status.view.mirror_maker is None:
        return {}
    return {TopicPartition(p.target_topic, p.partition): p.target_end for p in status.view.partitions}


def _groups(
    found: tuple[GroupTranslation, ...] | Unanswered, ends: Mapping[TopicPartition, int], left: Mapping[str, str]
) -> tuple[tuple[GroupOutlook, ...], str]:
    if isinstance(found, Unanswered):
        return (), found.why
    by_group: Mapping[str, list[GroupTranslation]] = defaultdict(list)
    for each in found:
        by_group[each.group].append(each)
    outlooks = [_outlook(group, by_group[group], ends) for group in sorted(by_group)]
    return tuple(
        replace(each, continues=Continues.UNKNOWN, re_reads=None, detail=left[each.group])
        if each.group in left
        else each
        for each in outlooks
    ), ""


def _left(seen: Observed) -> dict[str, str]:
    """Groups that a failover leaves as they are, by the rules of `groups.translate`, as far as the target has a position of
    them: with members there, or further ahead."""
    positions, there = seen.observation.target_positions, seen.target.alias
    found: dict[str, str] = {}
    for each in () if isinstance(positions, Unanswered) else positions:
        item, committed, log_end = each.translation, CommittedOffset(each.committed), each.log_end
        if each.in_use:
            found[item.group] = f"it has members on {there}, and is left as it is there"
        elif (
            log_end is not None
            and not each.markers_only
            and not each.read_on
            and (move := decide(item, LogBounds(0, log_end), committed)).left
        ):
            found.setdefault(item.group, f"{item.target} on {there}: {move.why}; it is left as it is there")
    return found


def _outlook(group: str, positions: Sequence[GroupTranslation], ends: Mapping[TopicPartition, int]) -> GroupOutlook:
    as_of = min(each.as_of_ms for each in positions)
    unknown = [each for each in positions if each.translation.kind is TranslationKind.UNKNOWN]
    if unknown:
        first = f"{unknown[0].source.topic}-{unknown[0].source.partition}"
        return GroupOutlook(
            group, Continues.UNKNOWN, None, as_of, f"{len(unknown)} positions cannot be translated, such as {first}"
        )
    again = sum(each.translation.records for each in positions if each.translation.kind in _RE_READ)
    lost = sum(each.translation.records for each in positions if each.translation.kind is TranslationKind.LOST)
    expired = sum(each.translation.expired for each in positions)
    missing = [f"{formats.records(expired)} that it had not read expired on the target"] if expired else []
    if lost > expired:
        where = "it" if expired else "the target"
        missing.append(f"{formats.records(lost - expired)} that it had not read did not reach {where}")
    detail = "; ".join(missing)
    if ends and not lost:
        most = sum(max(0, ends.get(p.target, 0) - (p.translation.offset or 0)) for p in positions)
        detail = f"with that at most {formats.records(most)}"
    return GroupOutlook(group, Continues.READS_AGAIN if again else Continues.EXACTLY, again, as_of, detail)


def _share_groups(found: SharesObserved | Unanswered, target: str) -> tuple[GroupOutlook, ...]:
    """Share groups, beside the consumer groups. Where they are not known, readiness says why."""
    if isinstance(found, Unanswered):
        return ()
    return tuple(_share_outlook(each, found, target) for each in found.groups)


def _share_outlook(each: ShareGroupSeen, found: SharesObserved, target: str) -> GroupOutlook:
    name = f"{each.group} (share group)"
    if not found.supported:
        detail = f"the brokers of {target} do not know share groups"
        return GroupOutlook(name, Continues.UNKNOWN, None, each.as_of_ms, detail)
    carried = each.known and found.may_write
    again = 0 if carried else each.acknowledged
    detail = (
        "" if not each.acknowledged else f"{formats.records(each.acknowledged)} acknowledged behind its start offsets"
    )
    detail += ", written there with ClusterAction" if carried and detail else ""
    if each.unset:
        detail += f"{'; ' if detail else ''}{each.unset} partitions have no start offset"
    how = Continues.UNKNOWN if again is None else Continues.READS_AGAIN if again else Continues.EXACTLY
    return GroupOutlook(name, how, again, each.as_of_ms, detail)


def _missing_topics(observation: FlowObservation) -> tuple[tuple[str, ...], str]:
    found = observation.producer_topics
    if isinstance(found, Unanswered):
        return (), found.why
    return tuple(name for name in found.names or () if not available(found.target, name)), ""


def supersede_means(run: UnfinishedRun) -> str:
    """What superseding `run` means, in words."""
    kept = f"its changes stay ({', '.join(run.not_undone)})" if run.not_undone else "no change of it is recorded"
    return f"a process that runs it is stopped, {kept}, and it is never resumed or rolled back"
