"""From the observation of a flow to findings: every check of `score.CHECKS`, and the checks of clusters and past drills.

Rules: a question without an answer is unknown with the reason; an empty answer is ok only where the question was answered.
Each finding states what was observed in numbers and ends with the command or edit that fixes it. Commands are Kafka's own
tools or drlib's. A failover is judged as if the source failed now: what is not on the target then is lost, and a position
without a counterpart is a guess.
Not for: weights, score and gate (`drlib.drill.readiness.score`).
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from drlib.drill.inventory.rules import Kind, Way
from drlib.drill.readiness.checks import (
    certificates,
    groups,
    mirror,
    producer_ids,
    producer_topics,
    share_groups,
    topics,
)
from drlib.drill.readiness.checks.objectives import AGAIN, CheckContext, Judgements, count, passed, unknown
from drlib.drill.readiness.checks.observations import (
    Advice,
    ClusterAnswer,
    ClusterIdentity,
    FlowObservation,
    PastDrill,
    PastDrills,
    Unanswered,
)
from drlib.drill.readiness.checks.writers import both_sides, standby
from drlib.drill.readiness.score import CHECKS, DAY_S, Finding, Readiness, Severity, check_of, worst
from drlib.formats import first_few, span, utc
from drlib.runs.verdict import ahead

PASSING: Final = frozenset({"pass", "conditions"})
NAMED: Final = 3  # applications in one finding
OF_TOPICS: Final = (
    "lag",
    "retention",
    "groups-exact",
    "positions-ahead",
    "topic-settings",
    "producer-topics",
    "durability",
)

Answer = TypeVar("Answer")


def judge_flow(observed: FlowObservation, context: CheckContext) -> Readiness:
    """Every check's findings, in the order of `CHECKS`."""
    judged: Mapping[str, Judgements] = {
        "target-answers": _reachable(observed.target, "applications cannot be moved"),
        "source-answers": _reachable(observed.source, "nothing can be mirrored or compared"),
        "cluster-ids": _judge(observed.identities, _identities),
        "rights": [
            *_judge(
                observed.obstacles,
                lambda obstacles: (
                    [(o.entity, Severity.CRITICAL, o.detail, o.fix) for o in obstacles] or passed("none is missing")
                ),
            ),
            *_advice(observed.advice),
        ],
        "worker": _judge(observed.mirror, lambda status: mirror.workers(status, observed.flow, context)),
        "events": _judge(observed.mirror, lambda status: mirror.events(status, observed)),
        "lag": _judge(observed.mirror, lambda status: mirror.lag(status, observed.flow, context)),
        "retention": _judge(observed.mirror, lambda status: mirror.retention(status, observed.retention_ms, context)),
        "heartbeat": _judge(observed.heartbeat, lambda last: mirror.heartbeat(last, observed, context)),
        "groups-exact": _with_applications(
            _with_shares(
                _judge(observed.translations, lambda translations: groups.positions(translations, observed, context)),
                observed,
                context,
            ),
            observed,
        ),
        "groups-mirrored": _judge(observed.readers, lambda readers: groups.mirrored(readers, observed.flow, context)),
        "positions-ahead": _judge(observed.target_positions, lambda positions: groups.ahead(positions, context)),
        "partitions": _judge(observed.topics, lambda both: topics.partitions(both, context)),
        "topic-settings": _judge(observed.settings, lambda drifts: topics.settings(drifts, context)),
        "producer-topics": _judge(
            observed.producer_topics, lambda both: producer_topics.producer_topics(both, observed.flow, context)
        ),
        "producer-ids": _judge(
            observed.producer_ids, lambda compared: producer_ids.producer_ids(compared, observed.at_ms, context)
        ),
        "written-on-both": _judge(observed.writers.both, both_sides.written_on_both),
        "standby-writers": _judge(observed.writers.standby, lambda found: standby.standby(found, observed.at_ms)),
        "address-certificates": _judge(observed.certificates, certificates.certificates),
        "durability": _judge(observed.durability, lambda durability: topics.durability(durability, context)),
        "drill-age": _judge(observed.drills, lambda drills: _drills(drills, observed, context)),
    }
    if not isinstance(observed.topics, Unanswered) and not observed.topics.names and not observed.topics.unlisted:
        judged = {**judged, **_over_nothing(judged, context, way_back=observed.topics.way_back)}
    if observed.source.error:
        judged = {**judged, **_as_last_known(judged, observed)}
    findings = [
        Finding(check.id, entity, severity, evidence, fix, _expires(check.id, observed, context))
        for check in CHECKS
        for entity, severity, evidence, fix in judged[check.id]
    ]
    refused = observed.source.refused
    return Readiness(observed.flow, observed.at_ms, tuple(findings), source_refused=refused).as_of(observed.at_ms)


def _advice(found: tuple[Advice, ...] | Unanswered) -> Judgements:
    """Rights that the mirror works without cost nothing, not even where they could not be asked for."""
    if isinstance(found, Unanswered):
        return [("", Severity.ADVICE, f"rights that the mirror works without were not checked: {found.why}", found.fix)]
    return [(each.entity, Severity.ADVICE, each.missing, each.fix) for each in found]


def _over_nothing(
    judged: Mapping[str, Judgements], context: CheckContext, *, way_back: bool
) -> Mapping[str, Judgements]:
    """The checks of topics and positions that passed without any: that proves nothing. A flow back waits for its first."""
    why = "nothing to check: no topic is mirrored"
    row = passed(f"{why} yet") if way_back else unknown(why, topics.correct_topics(context))
    return {name: row for name in OF_TOPICS if worst(row[1] for row in judged[name]) in (Severity.OK, Severity.ADVICE)}


def _as_last_known(judged: Mapping[str, Judgements], observed: FlowObservation) -> Mapping[str, Judgements]:
    """What is known of a lost source, with its age."""
    ages = {}
    if not isinstance(observed.mirror, Unanswered) and mirror.lag_unknown(observed.mirror) is None:
        ages["lag"] = observed.mirror.view.as_of_ms
    if not isinstance(observed.translations, Unanswered) and observed.translations:
        ages["groups-exact"] = min(position.as_of_ms for position in observed.translations)
    return {
        check: [
            (entity, severity, f"{evidence}, as last known {span(max(0, observed.at_ms - at_ms) / 1000)} ago", fix)
            for entity, severity, evidence, fix in judged[check]
        ]
        for check, at_ms in ages.items()
        if at_ms
    }


def _expires(check: str, observed: FlowObservation, context: CheckContext) -> int:
    """When the evidence of a check is too old: counted from when it was true, which may be before it was observed."""
    since = observed.at_ms
    if observed.source.error and check in ("lag", "groups-exact"):
        return since + check_of(check).lasts_s * 1000  # nothing newer exists: the evidence says how old it is
    if check == "lag" and not isinstance(observed.mirror, Unanswered) and mirror.lag_unknown(observed.mirror) is None:
        since = min(since, observed.mirror.view.as_of_ms or observed.mirror.view.at_ms)
    elif check == "groups-exact" and not isinstance(observed.translations, Unanswered):
        since = min([since, *(position.as_of_ms for position in observed.translations)])
    elif check == "drill-age" and not isinstance(observed.drills, Unanswered):
        due = [
            drill.finished_ms + context.objectives.drill_days * DAY_S * 1000
            for drill in _of_flow(observed.drills, observed)[0]
            if drill.verdict in PASSING
        ]
        if due and max(due) > since:
            return max(due)
    return since + check_of(check).lasts_s * 1000


def _judge(answer: Answer | Unanswered, judge: Callable[[Answer], Judgements]) -> Judgements:
    return unknown(answer.why, answer.fix) if isinstance(answer, Unanswered) else judge(answer)


def _with_shares(found: Judgements, observed: FlowObservation, context: CheckContext) -> Judgements:
    """`found`, and what share groups are judged by; what is known of one kind hides nothing of the other."""
    shares = observed.shares
    if isinstance(shares, Unanswered):
        rows: Judgements = [("share groups", Severity.UNKNOWN, shares.why, shares.fix)]
    else:
        rows = share_groups.share_groups(shares, observed.target.alias, context)
    return [*(row for row in found if row[1] not in (Severity.OK, Severity.ADVICE)), *rows] if rows else found


def _with_applications(found: Judgements, observed: FlowObservation) -> Judgements:
    """`found`, and which applications in use only people can move: that costs nothing, and has to be known at night.

    A group that reads none of the mirrored topics is no application of the flow. One whose topics are not known may be, where
    it has members.
    """
    seen = observed.inventory
    if isinstance(seen, Unanswered):
        return [*found, ("", Severity.ADVICE, f"who uses the topics was not asked: {seen.why}", seen.fix)]
    mirrored = None if isinstance(observed.topics, Unanswered) else observed.topics.names.keys()
    by_hand = [
        row
        for row in seen.applications
        if row.cluster == observed.source.alias and row.way is Way.BY_HAND and row.members != 0
        if (mirrored is None or mirrored & set(row.topics))
        or (row.members and (row.kind is Kind.CONNECT or not row.topics))
    ]
    if not by_hand:
        return found
    named = first_few((f"{row.name} ({row.kind.value}: {row.how})" for row in by_hand), NAMED)
    why = f"{count(len(by_hand), 'application')} of {observed.source.alias} move by hand: {named}"
    fix = "drlib inventory FILE lists all of them, with client IDs and hosts; agree on who moves each."
    return [*found, ("applications", Severity.ADVICE, why, fix)]


def _reachable(cluster: ClusterAnswer, consequence: str) -> Judgements:
    if cluster.refused:
        consequence = "what it is to others is not known here"
    if cluster.error:
        return [(cluster.alias, Severity.CRITICAL, f"{cluster.error}, so {consequence}", cluster.fix)]
    return passed(f"{cluster.alias} at {cluster.address} has {count(cluster.brokers, 'broker')}")


def _identities(identities: Iterable[ClusterIdentity]) -> Judgements:
    rows: Judgements = []
    confirmed = []
    for cluster in identities:
        alias, answered, pinned = cluster.alias, cluster.answered, cluster.pinned
        if not answered:
            why = (cluster.silence or "it did not answer") + (f"; its ID should be {pinned}" if pinned else "")
            rows.append((alias, Severity.UNKNOWN, why, cluster.fix if cluster.silence else AGAIN))
        elif pinned and answered != pinned:
            rows.append((alias, Severity.CRITICAL, f"its cluster ID is {answered} and not {pinned}", cluster.fix))
        else:
            confirmed.append(f"{alias} is {answered}{', as pinned' if pinned else ', which the first claim pins'}")
    return rows or passed("; ".join(confirmed))


def _of_flow(drills: PastDrills, observed: FlowObservation) -> tuple[list[PastDrill], list[PastDrill]]:
    """The drills of the flow, and those of them that ended in the future: how old those are is not known."""
    runs = [drill for drill in drills.runs if drill.flow == str(observed.flow)]
    early = [drill for drill in runs if ahead(drill.finished_ms, observed.at_ms)]
    return [drill for drill in runs if drill not in early], early


def _drills(drills: PastDrills, observed: FlowObservation, context: CheckContext) -> Judgements:
    rehearsal = ["drlib", "run", "rehearse-failover", context.file, "-p", f"flow={observed.flow}"]
    fix = f"Rehearse one beside your applications: {shlex.join(rehearsal)}"
    runs, early = _of_flow(drills, observed)
    passing = [drill for drill in runs if drill.verdict in PASSING]
    if not runs:
        broken = (
            f"; {count(len(drills.unverified), 'run')} not verified: drlib runs verify" if drills.unverified else ""
        )
        if early:
            broken += f"; {early[0].run} ended in the future, by a clock that was wrong, and does not count"
        return [(drills.folder, Severity.WARN, f"no drill of {observed.flow} is recorded there{broken}", fix)]
    newest = runs[0]
    if not passing:
        return [(newest.run, Severity.WARN, f"no drill passed; the newest ended with {newest.verdict}", fix)]
    last = passing[0]
    age = max(0.0, (observed.at_ms - last.finished_ms) / 1000)
    kind = f"{last.verdict}, a rehearsal" if last.rehearsal else last.verdict
    day = f"{utc(last.finished_ms):%Y-%m-%d}"
    evidence = f"{last.run} ({kind}) of {day} was {span(age)} ago, one is due every {context.objectives.drill_days} d"
    if age > context.objectives.drill_days * DAY_S:
        return [(last.run, Severity.WARN, evidence, fix)]
    if newest is not last:
        return [(newest.run, Severity.WARN, f"the newest drill ended with {newest.verdict}; {evidence}", fix)]
    return passed(evidence)
