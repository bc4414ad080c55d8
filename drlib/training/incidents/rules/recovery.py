"""Whether an incident has recovered, judged from observations of the clusters alone.

Rules: a literal match per cause; an empty result means recovered. Anything that could not be observed counts as not
recovered. Recovery is what the clusters show, never what an operator reports or did.
Not for: making observations, nor for waiting until the incident has recovered.
"""

from collections.abc import Sequence
from typing import Final

from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.symptoms import (
    Observation,
    comparison_point,
    is_behind,
    is_stalled,
    is_written,
    partitions_differ,
    positions_stalled,
    records_skipped,
    retains_less,
    timestamps_wrong,
)

_READER: Final = "billing"  # reads bookings
_MAX_READER_LAG: Final = 100  # records: two and a half seconds of bookings
_LOADERS: Final = ("loyalty", "lounges")


def unresolved(
    injected: Sequence[InjectedCause], observations: Sequence[Observation], baseline: Observation
) -> tuple[str, ...]:
    """List, in words, what still has to recover from all of `injected`.

    `observations`: oldest first. `baseline`: from before the incident.
    """
    now, before = observations[-1], comparison_point(observations)
    if before is None:
        return ("it was not observed for long enough",)
    problems = [*_general_problems(before, now, baseline)]
    for cause in injected:
        problems += _cause_problems(cause, observations, before, now, baseline)
    return tuple(dict.fromkeys(problems))


def _general_problems(before: Observation, now: Observation, baseline: Observation) -> list[str]:
    """What every incident has to restore: sites, mirror, applications."""
    problems = [f"{site} does not answer" for site in now.unreachable]
    if not now.mirror_runs:
        problems.append("the mirror does not run")
    for topic in now.topics:
        if topic.lag is None:
            problems.append(f"the lag of {topic.topic} is unknown")
        elif is_behind(before.topic(topic.topic), topic):
            problems.append(f"{topic.topic} is not mirrored, or too slowly")
    for application in baseline.applications:
        problems += _application_problems(before, now, application.name)
    return problems


def _application_problems(before: Observation, now: Observation, name: str) -> list[str]:
    application = now.application(name)
    if application is None or application.phase == "gone":
        return [f"{name} does not run"]
    return [f"{name} makes no progress"] if is_stalled(before, application) else []


def _cause_problems(
    injected: InjectedCause,
    observations: Sequence[Observation],
    before: Observation,
    now: Observation,
    baseline: Observation,
) -> list[str]:
    match injected.cause:
        case "topic-recreated":
            return [] if "kitchen" in now.groups_at_start else ["group kitchen is not at the start of menus"]
        case "partitions-added":
            return [f"{t.topic} has another number of partitions on RIGHT" for t in now.topics if partitions_differ(t)]
        case "stopped-group-sync":
            return _group_sync_problems(observations, now)
        case "foreign-writer":
            writer = now.application(injected.how)
            running = writer is not None and writer.phase != "gone"
            return [f"{injected.how} still writes"] if running else []
        case "clock-skew" | "clock-ahead":
            earlier, topic = before.topic(injected.where), now.topic(injected.where)
            correct = topic.newest_ms is not None and not timestamps_wrong(earlier, topic, now.at_ms)
            written = topic.end is not None and earlier.end is not None and topic.end > earlier.end
            return [] if correct and written else [f"new records of {injected.where} do not carry the current time"]
        case "split-brain":
            problems = ["LEFT is still written to"] if is_written(before, now, "LEFT") else []
            return problems + ([] if is_written(before, now, "RIGHT") else ["RIGHT is not written to"])
        case "reset-to-latest":
            group = now.group(injected.where)
            if group.skipped is None:
                return [f"what {injected.where} has processed is unknown"]
            skipped = records_skipped(baseline.group(injected.where), group)
            return [f"{injected.where} has not processed {skipped:,} records"] if skipped > 0 else []
        case "producer-id-collision":
            problems = [p for name in _LOADERS for p in _application_problems(before, now, name)]
            if now.missing is None:
                return [*problems, "how many acknowledged vouchers are missing is unknown"]
            return problems + [f"{now.missing:,} acknowledged vouchers are not in the log"] * bool(now.missing)
        case "wrong-failover":
            problems = [] if is_written(before, now, "LEFT") else ["LEFT is not written to"]
            return problems + [
                f"RIGHT has acknowledged {topic.local:,} records of {topic.topic} that LEFT does not have"
                for topic in now.topics
                if topic.local
            ]
        case "poison-record":
            return _reader_problems(before, now, baseline, injected.where)
        case "retention-cut":
            topic = now.topic(injected.where)
            if topic.retention_ms is None:
                return [f"the retention of {injected.where} is unknown"]
            return (
                [f"{injected.where} retains records for too short"]
                if retains_less(baseline.topic(injected.where), topic)
                else []
            )
    return []


def _reader_problems(before: Observation, now: Observation, baseline: Observation, topic: str) -> list[str]:
    """What the reader has still to do, but for one record. A restart alone is no progress, and it may stop again."""
    earlier, reader = before.application(_READER), now.application(_READER)
    end, position = now.topic(topic).end, now.group(_READER).left
    skipped = records_skipped(baseline.group(_READER), now.group(_READER))
    problems = [f"{_READER} has not processed {skipped - 1:,} records that it could"] if skipped > 1 else []
    if reader is None or earlier is None or reader.done <= earlier.done:
        problems.append(f"{_READER} has processed nothing since it was started")
    if end is None or position is None or end - position > _MAX_READER_LAG:
        problems.append(f"{_READER} is not at the end of {topic}")
    return problems


def _group_sync_problems(observations: Sequence[Observation], now: Observation) -> list[str]:
    if positions_stalled(observations):
        return ["committed offsets of groups do not move on RIGHT"]
    moved = [
        group.group
        for group in now.groups
        if group.right is not None
        and (earlier := observations[0].group(group.group).right) is not None
        and group.right > earlier
    ]
    return [] if moved else ["no group's committed offsets have moved on RIGHT"]
