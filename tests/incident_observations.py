"""Observations of an incident's testbed: a healthy one, changed ones, and series of them."""

from __future__ import annotations

from dataclasses import replace

from drlib.training.incidents.rules.symptoms import (
    ApplicationObservation,
    GroupObservation,
    Observation,
    Symptom,
    TopicObservation,
)

WEEK_MS = 604_800_000
PARTITIONS = {"flights": (4, 4, 4), "bookings": (2, 2, 2), "gates": (1, 1, None)}


def observation(at_s: float, **changes: object) -> Observation:
    """All is well: every second 100 records are written, mirrored and read."""
    n = int(at_s * 100)
    now = int(at_s * 1000)
    topics = tuple(TopicObservation(name, n, n, 0, now, shape, 0, WEEK_MS) for name, shape in PARTITIONS.items())
    applications = tuple(
        ApplicationObservation(name, "running", "LEFT", n) for name in ("flights", "bookings", "arrivals")
    )
    menus = TopicObservation("menus", 200, 200, 0, 0, (2, 2, None))
    observation = Observation(
        now, (), (*topics, menus), applications, (GroupObservation("arrivals", n, n, 4),), True, ()
    )
    return replace(observation, **changes)  # type: ignore[arg-type]


def with_topic(observation: Observation, name: str, **changes: object) -> Observation:
    topics = tuple(replace(t, **changes) if t.topic == name else t for t in observation.topics)  # type: ignore[arg-type]
    return replace(observation, topics=topics)


def series(now: Observation) -> list[Observation]:
    return [observation(100), observation(104), now]


BASELINE = observation(100)


ABNORMAL = {
    Symptom.SITE_SILENT: observation(108, unreachable=("LEFT",)),
    Symptom.MIRROR_DOWN: observation(108, mirror_runs=False),
    Symptom.MIRROR_BEHIND: with_topic(observation(108), "flights", mirrored=10_000),
    Symptom.MIRROR_REPORTS: observation(108, events=("ForeignWriter",)),
    Symptom.APPLICATION_STALLED: observation(108, applications=observation(104).applications),
    Symptom.POSITIONS_STALLED: observation(108, groups=(GroupObservation("arrivals", 10_800, 10_000),)),
    Symptom.PARTITIONS_DIFFER: with_topic(observation(108), "flights", partitions=(6, 6, 4)),
    Symptom.TOPIC_SHRANK: with_topic(observation(108), "menus", end=40, mirrored=40),
    Symptom.TIMES_WRONG: with_topic(observation(108), "gates", newest_ms=30_000),
    Symptom.BOTH_WRITTEN: with_topic(observation(108), "flights", local=70),
    Symptom.RECORDS_SKIPPED: observation(108, groups=(GroupObservation("arrivals", 10_800, 10_800, 25),)),
    Symptom.RECORDS_EXPIRE: with_topic(observation(108), "flights", start=9_000, retention_ms=10_000),
}
