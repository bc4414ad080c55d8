"""From what was seen of a flow to findings: one function for each check of `readiness.CHECKS`.

Rules: what nobody saw is unknown with the reason; nothing seen is only ok where the question was answered. Each finding
says what was seen in numbers and ends with the command or edit that mends it. Commands are Kafka's own tools or ours.
A failover is judged as if the source died now: what is not on the target then is lost, what has no counterpart is guessed.
Not for: weights, score and gate (`readiness`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from drlib.drill.readiness.checks import groups as of_groups
from drlib.drill.readiness.checks import topics as of_topics
from drlib.drill.readiness.checks.objectives import Found, Terms, count, fine, span
from drlib.drill.readiness.checks.observations import Beat, Identity, Reach, Retained, Seen, Unseen, Work
from drlib.drill.readiness.score import CHECKS, DAY_S, Finding, Readiness, Severity, check_of

LATE_BEATS: Final = 10  # heartbeats that may be missing before it is told, and at least:
LATE_S: Final = 30

# Events that mean that records do not cross, or cannot be trusted: the gate is closed by them.
STANDS_STILL: Final = frozenset(
    {
        "LaneFailed", "LaneUnauthorized", "WrongCluster", "OfflinePartition", "Parked", "TargetRefused", "SourceCorrupt",
        "SourceStalled", "SourceTruncated", "SourceLossParked", "JournalLost", "MirrorTopicRecreated",
        "MirrorContradiction", "MirrorTopicRefused", "TopicLoop",
    }
)  # fmt: skip
# Told by a check of their own, or nothing to do about.
TOLD_ELSEWHERE: Final = frozenset(
    {
        "NoWorker", "LaneUnowned", "WorkerSilent", "RetentionAhead", "GroupAhead", "GroupRewound", "TopicConfigDrift",
        "SourceUnauthorized", "TargetUnauthorized", "TakenOver", "LaneLost", "GroupLive", "GroupNotTranslated",
    }
)  # fmt: skip


PRACTISED: Final = frozenset({"pass", "conditions"})

Answer = TypeVar("Answer")


def examine(seen: Seen, terms: Terms) -> Readiness:
    """Every check's findings, in the order of `CHECKS`."""
    judged: Mapping[str, Found] = {
        "target-answers": _reach(seen.target, "applications have nowhere to go"),
        "source-answers": _reach(seen.source, "nothing new can be mirrored and nothing compared"),
        "cluster-ids": _of(seen.identities, _identities),
        "rights": _of(
            seen.lacks,
            lambda lacks: [(k.entity, Severity.CRITICAL, k.detail, k.fix) for k in lacks]
            or fine("every right the flow was asked about is there"),
        ),
        "worker": _of(seen.workers, lambda _: _workers(seen, terms)),
        "events": _of(seen.told, lambda _: _events(seen)),
        "lag": _of(seen.backlog, lambda _: _lag(seen, terms)),
        "retention": _of(seen.retained, lambda retained: _retention(retained, terms)),
        "heartbeat": _of(seen.beat, lambda beat: _heartbeat(beat, seen.at_ms, terms)),
        "groups-exact": _of(seen.placed, lambda placed: of_groups.groups(placed, seen.flow, terms)),
        "groups-mirrored": _of(seen.readers, lambda _: of_groups.readers(seen, terms)),
        "positions-ahead": _of(seen.there, lambda there: of_groups.ahead(there, terms)),
        "partitions": _of(seen.mirrored, lambda topics: of_topics.partitions(topics, terms)),
        "topic-settings": _of(seen.settings, lambda topics: of_topics.settings(topics, terms)),
        "durability": _of(seen.durability, lambda _: of_topics.durability(seen, terms)),
        "drill-age": _of(seen.drills, lambda _: _drills(seen, terms)),
    }  # fmt: skip
    findings = [
        Finding(check.id, entity, verdict, evidence, fix, _expires(check.id, seen, terms))
        for check in CHECKS
        for entity, verdict, evidence, fix in judged[check.id]
    ]
    return Readiness(seen.flow, seen.at_ms, tuple(findings)).as_of(seen.at_ms)


def _expires(check: str, seen: Seen, terms: Terms) -> int:
    """Until when the evidence of a check may be believed: from when it was so, which may be before we looked."""
    since = seen.at_ms
    if check == "lag" and not isinstance(seen.backlog, Unseen) and seen.backlog.as_of_ms:
        since = min(since, seen.backlog.as_of_ms)
    elif check == "groups-exact" and not isinstance(seen.placed, Unseen):
        since = min([since, *(p.as_of_ms for p in seen.placed)])
    elif check == "drill-age" and not isinstance(seen.drills, Unseen):
        due = [
            d.finished_ms + terms.objectives.drill_days * DAY_S * 1000
            for d in seen.drills.runs
            if d.verdict in PRACTISED
        ]
        if due and max(due) > since:
            return max(due)
    return since + check_of(check).lasts_s * 1000


def _of(answer: Answer | Unseen, judge: Callable[[Answer], Found]) -> Found:
    if isinstance(answer, Unseen):
        return [("", Severity.UNKNOWN, answer.why, answer.fix)]
    return judge(answer)


# -- clusters -----------------------------------------------------------------------------------------------------


def _reach(reach: Reach, then: str) -> Found:
    if reach.error:
        return [(reach.alias, Severity.CRITICAL, f"{reach.error}, so {then}", reach.fix)]
    return fine(f"{reach.alias} at {reach.where} has {count(reach.brokers, 'broker')}")


def _identities(found: Iterable[Identity]) -> Found:
    rows: Found = []
    told = []
    for one in found:
        if not one.found:
            why = "it did not answer" + (f"; {one.meant} is the one that is meant" if one.meant else "")
            rows.append((one.alias, Severity.UNKNOWN, why, "Bring it back, then look again."))
        elif one.meant and one.found != one.meant:
            rows.append((one.alias, Severity.CRITICAL, f"its cluster ID is {one.found} and not {one.meant}", one.fix))
        else:
            told.append(f"{one.alias} is {one.found}{', as pinned' if one.meant else ', pinned by the first claim'}")
    return rows or fine("; ".join(told))


# -- the flow -----------------------------------------------------------------------------------------------------


def _workers(seen: Seen, terms: Terms) -> Found:
    workers = seen.workers
    assert not isinstance(workers, Unseen)
    start = f"Start one, which goes on from the exact record: {terms.drlib('mirror')}"
    rows: Found = []
    if workers.work is Work.NONE:
        return [(seen.flow, Severity.CRITICAL, "the flow's group has no member: nothing is mirrored", start)]
    if workers.unowned:
        lanes = ", ".join(map(str, workers.unowned))
        rows.append(
            (f"lane {lanes}", Severity.CRITICAL, f"of {count(workers.lanes, 'lane')} nobody owns {lanes}", start)
        )
    if workers.silent:
        fix = "Look at that process; its lanes go to another worker when its session ends."
        names = ", ".join(workers.silent)
        rows.append((names, Severity.UNKNOWN, "it owns a lane and does not answer at its address", fix))
    if rows:
        return rows
    if workers.work is Work.MIRRORING:
        return fine(f"{count(workers.members or 0, 'worker')}, {count(workers.lanes, 'lane')}, all owned")
    if workers.work is Work.UNKNOWN:
        return [(seen.flow, Severity.UNKNOWN, "nobody could say whether a worker runs", start)]
    return [(seen.flow, Severity.WARN, f"its lanes are {workers.work}", "Wait until it runs, then look again.")]


def _events(seen: Seen) -> Found:
    told = seen.told
    assert not isinstance(told, Unseen)
    unreachable = {"SourceUnreachable": bool(seen.source.error), "TargetUnreachable": bool(seen.target.error)}
    rows: Found = []
    for event in told.events:
        if event.name in TOLD_ELSEWHERE or unreachable.get(event.name):
            continue
        verdict = Severity.CRITICAL if event.name in STANDS_STILL else Severity.WARN
        rows.append((event.entity, verdict, f"{event.name}: {event.detail}", event.remedy))
    if not told.by_all:
        why = "a worker runs and was not heard, so what it has to tell is not known; the journal's ledger was read"
        rows.append((seen.flow, Severity.UNKNOWN, why, "Start workers with --metrics HOST:PORT, or name it with --at."))
    return rows or fine("none is open")


def _lag(seen: Seen, terms: Terms) -> Found:
    backlog = seen.backlog
    assert not isinstance(backlog, Unseen)
    if backlog.records is None:
        return [(seen.flow, Severity.UNKNOWN, "the ends of the source's logs are not known", "Bring the source back.")]
    if backlog.records == 0:
        return fine("nothing is behind")
    age = "of unknown age" if backlog.seconds is None else f"the oldest {span(backlog.seconds)} old"
    told = f"{count(backlog.records, 'record')} not on the target, {age}, most in {backlog.furthest}"
    objective = (
        f"at most {count(terms.objectives.rpo_records, 'record')} and {span(terms.objectives.rpo_seconds)} may be lost"
    )
    running = not isinstance(seen.workers, Unseen) and seen.workers.work is Work.MIRRORING
    fix = (
        f"Wait for it to catch up; if it does not, widen the link or add workers: {terms.drlib('status', '--watch')}"
        if running
        else f"Start a worker: {terms.drlib('mirror')}"
    )
    if backlog.records > terms.objectives.rpo_records or (
        backlog.seconds is not None and backlog.seconds > terms.objectives.rpo_seconds
    ):
        return [(seen.flow, Severity.CRITICAL, f"{told}; {objective}", fix)]
    if backlog.seconds is None:
        return [(seen.flow, Severity.UNKNOWN, f"{told}; {objective}", fix)]
    return fine(f"{told}; {objective}")


def _retention(retained: Retained, terms: Terms) -> Found:
    def raise_it(topic: str) -> str:
        longer = str(max(terms.retention_warning_s * 2000, 2 * retained.shortest_ms.get(topic, 0)))
        words = ("--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config", f"retention.ms={longer}")
        return terms.tool("kafka-configs", terms.source, *words)

    rows: Found = []
    for one in retained.behind:
        entity, topic = str(one.partition), one.partition.topic
        if one.warning:
            rows.append((entity, Severity.CRITICAL, one.warning, f"Until the mirror has caught up: {raise_it(topic)}"))
        elif one.left_s is not None and one.left_s < terms.retention_warning_s:
            why = f"its oldest unmirrored record may go in {span(one.left_s)} by {one.rule}"
            rows.append((entity, Severity.WARN, why, f"Until the mirror has caught up: {raise_it(topic)}"))
        elif not one.known and retained.shortest_ms.get(topic, -1) >= 0:
            why = "how old its oldest unmirrored record is could not be read"
            rows.append((entity, Severity.UNKNOWN, why, "Look again."))
    behind = {one.partition.topic for one in retained.behind}
    for topic, kept in sorted(retained.shortest_ms.items()):
        if 0 <= kept < terms.retention_warning_s * 1000 and topic not in behind:
            why = f"it keeps records for {span(kept / 1000)}: a mirror that stands still for longer loses some"
            rows.append((topic, Severity.WARN, why, raise_it(topic)))
    if rows:
        return rows
    ages = [kept for kept in retained.shortest_ms.values() if kept >= 0]
    kept_for = f"records are kept for {span(min(ages) / 1000)} or longer" if ages else "no topic expires by age"
    left = [one.left_s for one in retained.behind if one.left_s is not None]
    soonest = f"; the first unmirrored one may go in {span(min(left))}" if left else ""
    return fine(f"{kept_for}{soonest}")


def _heartbeat(beat: Beat, now_ms: int, terms: Terms) -> Found:
    if beat.interval_s <= 0:
        return fine("the file switches heartbeats off, so none is awaited")
    fix = f"Start a worker: {terms.drlib('mirror')}"
    if beat.at_ms is None:
        return [("", Severity.WARN, "no heartbeat of this flow is among the newest on the target", fix)]
    age = max(0.0, (now_ms - beat.at_ms) / 1000)
    if age > max(LATE_S, LATE_BEATS * beat.interval_s):
        return [("", Severity.WARN, f"the last one is {span(age)} old, one is due every {beat.interval_s} s", fix)]
    return fine(f"the last one is {span(age)} old")


# -- practice -----------------------------------------------------------------------------------------------------


def _drills(seen: Seen, terms: Terms) -> Found:
    drills = seen.drills
    assert not isinstance(drills, Unseen)
    fix = "drlib run runbooks/failover-drill.yaml --lab"
    good = [one for one in drills.runs if one.verdict in PRACTISED]
    if not drills.runs:
        gone = f"; {count(len(drills.unreadable), 'run')} without a readable scorecard" if drills.unreadable else ""
        return [(drills.where, Severity.WARN, f"no drill is on record there{gone}", fix)]
    newest = drills.runs[0]
    if not good:
        return [(newest.run, Severity.WARN, f"no drill passed; the newest ended with {newest.verdict}", fix)]
    age = max(0.0, (seen.at_ms - good[0].finished_ms) / 1000)
    told = f"{good[0].run} ({good[0].verdict}) was {span(age)} ago, one is due every {terms.objectives.drill_days} d"
    if age > terms.objectives.drill_days * DAY_S:
        return [(good[0].run, Severity.WARN, told, fix)]
    if newest is not good[0]:
        return [(newest.run, Severity.WARN, f"the newest drill ended with {newest.verdict}; {told}", fix)]
    return fine(told)
