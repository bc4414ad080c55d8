"""Observations of an incident's testbed, and the symptoms an operator can see in them.

Rules: an `Observation` holds what both clusters, the applications and the mirror reported at one moment. A value that could
not be obtained is None or its site is in `unreachable`; it is never reported as 0. A symptom compares observations and
knows no cause. Stalls are judged over at least `STALL_S` seconds, because anything may pause for a moment.
Not for: obtaining observations (`drlib.training.incidents.lab.observe`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

STALL_S: Final = 3.0
MAX_LAG: Final = 400  # records: two seconds of the lab's traffic, more than a healthy mirror ever lags
MAX_SKIPPED: Final = 20  # offsets: markers of transactions look like skipped records
TIMES_OFF_MS: Final = 10_000
_A_DAY_MS: Final = 86_400_000


class Symptom(StrEnum):
    SITE_SILENT = "a site does not answer"
    MIRROR_DOWN = "the mirror does not run"
    MIRROR_BEHIND = "a topic is not mirrored, or more slowly than it is written"
    MIRROR_REPORTS = "the mirror reports a problem: see drlib status"
    APPLICATION_STALLED = "an application makes no progress"
    POSITIONS_STALLED = "committed offsets of groups move on LEFT but not on RIGHT"
    PARTITIONS_DIFFER = "a topic has different partition counts on the two sites"
    TOPIC_SHRANK = "a topic on LEFT is shorter than it was"
    TIMES_WRONG = "new records of a topic carry a wrong timestamp"
    BOTH_WRITTEN = "both sites are written to"
    RECORDS_SKIPPED = "a group has committed offsets behind records that it has not processed"
    RECORDS_EXPIRE = "a topic on LEFT deletes records that it retained before"


@dataclass(frozen=True, slots=True)
class TopicObservation:
    """One topic of the applications.

    `end`: sum of the end offsets on LEFT. `mirrored`: how many of those offsets the mirror reports as acknowledged on RIGHT.
    `local`: sum of the end offsets of the standby topic on RIGHT, 0 without one. `newest_ms`: greatest timestamp on LEFT.
    `partitions`: of the topic on LEFT, of its mirror topic and of its standby topic on RIGHT. `start`: sum of the log start
    offsets on LEFT. `retention_ms`: in force on LEFT.
    """

    topic: str
    end: int | None
    mirrored: int | None
    local: int | None
    newest_ms: int | None = None
    partitions: tuple[int | None, int | None, int | None] = (None, None, None)
    start: int | None = None
    retention_ms: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.end is None or self.mirrored is None else max(0, self.end - self.mirrored)


@dataclass(frozen=True, slots=True)
class ApplicationObservation:
    """`done`: records acknowledged or processed so far. `phase`: reported by the application; "gone" if it does not run."""

    name: str
    phase: str
    site: str
    done: int


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """Sum of a group's committed offsets on each site; None without any. `skipped`: records on LEFT that it has passed without
    processing them; None if unknown."""

    group: str
    left: int | None
    right: int | None
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """The testbed at one moment. `unreachable`: sites that did not answer. `events`: names of the mirror's open events,
    oldest first. `groups_at_start`: groups at the log start offset of every partition of their topic on LEFT. `missing`:
    records of loaders that RIGHT acknowledged and does not have."""

    at_ms: int
    unreachable: tuple[str, ...]
    topics: tuple[TopicObservation, ...]
    applications: tuple[ApplicationObservation, ...]
    groups: tuple[GroupObservation, ...]
    mirror_runs: bool
    events: tuple[str, ...]
    groups_at_start: tuple[str, ...] = ()
    missing: int | None = None

    def topic(self, name: str) -> TopicObservation:
        return next(topic for topic in self.topics if topic.topic == name)

    def group(self, name: str) -> GroupObservation:
        return next((group for group in self.groups if group.group == name), GroupObservation(name, None, None))

    def application(self, name: str) -> ApplicationObservation | None:
        return next((application for application in self.applications if application.name == name), None)


def comparison_point(observations: Sequence[Observation]) -> Observation | None:
    """Return the newest of `observations` (oldest first) that is `STALL_S` older than the last; None if there is none."""
    latest_ms = observations[-1].at_ms - STALL_S * 1000
    return next((earlier for earlier in reversed(observations) if earlier.at_ms <= latest_ms), None)


def detect_symptoms(observations: Sequence[Observation], baseline: Observation) -> tuple[Symptom, ...]:
    """Return the symptoms in the last of `observations` (oldest first).

    `baseline`: an observation from before the incident, with everything in order.
    """
    now, before = observations[-1], comparison_point(observations)
    symptoms: list[Symptom] = []
    if now.unreachable:
        symptoms.append(Symptom.SITE_SILENT)
    if not now.mirror_runs:
        symptoms.append(Symptom.MIRROR_DOWN)
    if before is not None and any(is_behind(before.topic(t.topic), t) for t in now.topics):
        symptoms.append(Symptom.MIRROR_BEHIND)
    if set(now.events) - set(baseline.events):
        symptoms.append(Symptom.MIRROR_REPORTS)
    if before is not None and any(is_stalled(before, application) for application in now.applications):
        symptoms.append(Symptom.APPLICATION_STALLED)
    if positions_stalled(observations):
        symptoms.append(Symptom.POSITIONS_STALLED)
    if any(partitions_differ(topic) for topic in now.topics):
        symptoms.append(Symptom.PARTITIONS_DIFFER)
    if any(log_shrank(baseline.topic(t.topic), t) for t in now.topics):
        symptoms.append(Symptom.TOPIC_SHRANK)
    if before is not None and any(timestamps_wrong(before.topic(t.topic), t, now.at_ms) for t in now.topics):
        symptoms.append(Symptom.TIMES_WRONG)
    if before is not None and is_written(before, now, "LEFT") and is_written(before, now, "RIGHT"):
        symptoms.append(Symptom.BOTH_WRITTEN)
    if any(records_skipped(baseline.group(group.group), group) > MAX_SKIPPED for group in now.groups):
        symptoms.append(Symptom.RECORDS_SKIPPED)
    if any(records_expire(baseline.topic(t.topic), t) for t in now.topics):
        symptoms.append(Symptom.RECORDS_EXPIRE)
    return tuple(symptoms)


def is_behind(before: TopicObservation, now: TopicObservation) -> bool:
    """Report whether a topic's lag exceeds `MAX_LAG`, or a smaller lag persists without any progress of the mirror."""
    if now.lag is None:
        return False
    no_progress = bool(now.lag) and before.mirrored == now.mirrored and bool(before.lag)
    return now.lag > MAX_LAG or no_progress


def is_stalled(before: Observation, now: ApplicationObservation) -> bool:
    """Report whether an application made no progress. A lower count means a restart; "gone" means that it was stopped."""
    earlier = before.application(now.name)
    return earlier is not None and now.phase != "gone" and earlier.done == now.done


def positions_stalled(observations: Sequence[Observation]) -> bool:
    """Report whether groups advanced on LEFT and none of those on RIGHT, over all of `observations`.

    False for a period shorter than twice `STALL_S`.
    """
    first, now = observations[0], observations[-1]
    if now.at_ms - first.at_ms < 2 * STALL_S * 1000 or now.unreachable or first.unreachable:
        return False
    pairs = [(first.group(group.group), group) for group in now.groups]
    moved = [(old, new) for old, new in pairs if old.left is not None and new.left is not None and new.left > old.left]
    return bool(moved) and all(old.right == new.right for old, new in moved)


def partitions_differ(topic: TopicObservation) -> bool:
    """Report whether the mirror topic or the standby topic has another partition count than the topic on LEFT."""
    source, mirror, standby = topic.partitions
    return source is not None and any(count is not None and count not in (0, source) for count in (mirror, standby))


def log_shrank(baseline: TopicObservation, now: TopicObservation) -> bool:
    return now.end is not None and baseline.end is not None and now.end < baseline.end


def records_skipped(baseline: GroupObservation, now: GroupObservation) -> int:
    """How many records a group has skipped since the baseline; 0 if unknown."""
    return 0 if now.skipped is None else now.skipped - (baseline.skipped or 0)


def records_expire(baseline: TopicObservation, now: TopicObservation) -> bool:
    """Report whether the log start of a topic has advanced and its retention is shorter than before."""
    advanced = now.start is not None and baseline.start is not None and now.start > baseline.start
    return advanced and retains_less(baseline, now)


def retains_less(baseline: TopicObservation, now: TopicObservation) -> bool:
    """Report whether a topic retains records for less time than before, and for less than a day."""
    if now.retention_ms is None or baseline.retention_ms is None:
        return False
    return 0 <= now.retention_ms < _A_DAY_MS and not 0 <= baseline.retention_ms < _A_DAY_MS


def timestamps_wrong(before: TopicObservation, now: TopicObservation, at_ms: int) -> bool:
    """Report whether a topic was written to while its newest timestamp stayed more than `TIMES_OFF_MS` from now."""
    written = now.end is not None and before.end is not None and now.end > before.end
    return written and now.newest_ms is not None and abs(at_ms - now.newest_ms) > TIMES_OFF_MS


def is_written(before: Observation, now: Observation, site: str) -> bool:
    """Report whether applications wrote to flights or bookings at `site`. Topic `gates`, always on LEFT, does not count."""
    for topic in now.topics:
        earlier = before.topic(topic.topic)
        old, new = (earlier.end, topic.end) if site == "LEFT" else (earlier.local, topic.local)
        if topic.topic in ("flights", "bookings") and old is not None and new is not None and new > old:
            return True
    return False
