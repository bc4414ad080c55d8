"""What an operator can see of an incident, and what of it is out of the ordinary.

Rules: a `Look` is what two clusters, the applications and the mirror said at one moment, from outside; what could not
be asked is None or in `silent`, never 0. A symptom compares looks and knows no cause. What stands still is told only
of a stretch of `STILL_S` at least, since everything stands still for a moment. Not for: asking
(`drlib.training.incidents.lab.observe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

STILL_S: Final = 3.0
BEHIND: Final = 400  # records: two seconds of the lab's traffic, more than the mirror ever holds back by itself
TIMES_OFF_MS: Final = 10_000


class Symptom(StrEnum):
    SITE_SILENT = "a site does not answer"
    MIRROR_DOWN = "the mirror does not run"
    MIRROR_BEHIND = "a topic does not cross, or slower than it is written"
    MIRROR_REPORTS = "the mirror reports something: drlib status says what"
    APPLICATION_STANDS = "an application stands still"
    POSITIONS_STAND = "positions of groups stand still on RIGHT while they move on LEFT"
    SHAPES_DIFFER = "a topic has not the same number of partitions on both sites"
    TOPIC_SHRANK = "a topic on LEFT is shorter than it was"
    TIMES_WRONG = "new records of a topic bear the time of another moment"
    BOTH_WRITTEN = "both sites are written to"


@dataclass(frozen=True, slots=True)
class TopicLook:
    """A topic of the applications. `end`: sum of LEFT's log ends; `local`: of the standby on RIGHT, 0 without one;
    `mirrored`: how much of LEFT the mirror said it has acknowledged; `newest_ms`: the greatest timestamp on LEFT.
    Partitions: of the topic on LEFT, of its mirror and of its standby on RIGHT."""

    topic: str
    end: int | None
    mirrored: int | None
    local: int | None
    newest_ms: int | None = None
    partitions: tuple[int | None, int | None, int | None] = (None, None, None)

    @property
    def lag(self) -> int | None:
        return None if self.end is None or self.mirrored is None else max(0, self.end - self.mirrored)


@dataclass(frozen=True, slots=True)
class ApplicationLook:
    """`done`: records acknowledged or processed so far. `phase`: what it says of itself, "gone" where it does not
    run."""

    name: str
    phase: str
    site: str
    done: int


@dataclass(frozen=True, slots=True)
class GroupLook:
    """Sums of a group's positions on both sites; None where it has none."""

    group: str
    left: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """One moment. `silent`: sites that did not answer. `events`: names of what the mirror has open, oldest first."""

    at_ms: int
    silent: tuple[str, ...]
    topics: tuple[TopicLook, ...]
    applications: tuple[ApplicationLook, ...]
    groups: tuple[GroupLook, ...]
    mirror_runs: bool
    events: tuple[str, ...]
    rewound: tuple[str, ...] = ()  # groups that stand at the very beginning of each partition of their topic on LEFT

    def topic(self, name: str) -> TopicLook:
        return next(one for one in self.topics if one.topic == name)

    def group(self, name: str) -> GroupLook:
        return next((one for one in self.groups if one.group == name), GroupLook(name, None, None))

    def application(self, name: str) -> ApplicationLook | None:
        return next((one for one in self.applications if one.name == name), None)


def earlier(looks: Sequence[Look]) -> Look | None:
    """The newest of `looks` (oldest first) that is `STILL_S` before the last one; None while there is none."""
    return next((look for look in reversed(looks) if looks[-1].at_ms - look.at_ms >= STILL_S * 1000), None)


def symptoms(looks: Sequence[Look], usual: Look) -> tuple[Symptom, ...]:
    """What is out of the ordinary in the last of `looks` (oldest first). `usual`: a look at all of it while it was
    well."""
    now, before = looks[-1], earlier(looks)
    found: list[Symptom] = []
    if now.silent:
        found.append(Symptom.SITE_SILENT)
    if not now.mirror_runs:
        found.append(Symptom.MIRROR_DOWN)
    if before is not None and any(behind(before.topic(t.topic), t) for t in now.topics):
        found.append(Symptom.MIRROR_BEHIND)
    if set(now.events) - set(usual.events):
        found.append(Symptom.MIRROR_REPORTS)
    if before is not None and any(stands(before, one) for one in now.applications):
        found.append(Symptom.APPLICATION_STANDS)
    if positions_stand(looks):
        found.append(Symptom.POSITIONS_STAND)
    if any(differs(one) for one in now.topics):
        found.append(Symptom.SHAPES_DIFFER)
    if any(shrank(usual.topic(t.topic), t) for t in now.topics):
        found.append(Symptom.TOPIC_SHRANK)
    if before is not None and any(times_off(before.topic(t.topic), t, now.at_ms) for t in now.topics):
        found.append(Symptom.TIMES_WRONG)
    if before is not None and grows(before, now, "LEFT") and grows(before, now, "RIGHT"):
        found.append(Symptom.BOTH_WRITTEN)
    return tuple(found)


def behind(before: TopicLook, now: TopicLook) -> bool:
    """Does the topic not cross: much is missing, or something is and the mirror did not move at all?"""
    if now.lag is None:
        return False
    stuck = bool(now.lag) and before.mirrored == now.mirrored and bool(before.lag)
    return now.lag > BEHIND or stuck


def stands(before: Look, now: ApplicationLook) -> bool:
    """Has it done nothing since? One that has done less was started again; one that is gone was ended by somebody."""
    then = before.application(now.name)
    return then is not None and now.phase != "gone" and then.done == now.done


def positions_stand(looks: Sequence[Look]) -> bool:
    """Over the whole stretch of `looks`, twice `STILL_S` at least: does a group move on LEFT and nothing of it on
    RIGHT?"""
    first, now = looks[0], looks[-1]
    if now.at_ms - first.at_ms < 2 * STILL_S * 1000 or now.silent or first.silent:
        return False
    pairs = [(first.group(one.group), one) for one in now.groups]
    moved = [(a, b) for a, b in pairs if a.left is not None and b.left is not None and b.left > a.left]
    return bool(moved) and all(a.right == b.right for a, b in moved)


def differs(topic: TopicLook) -> bool:
    """Where there is a standby: is its shape another one, or the mirror's?"""
    here, mirror, standby = topic.partitions
    return here is not None and any(n is not None and n not in (0, here) for n in (mirror, standby))


def shrank(usual: TopicLook, now: TopicLook) -> bool:
    return now.end is not None and usual.end is not None and now.end < usual.end


def times_off(before: TopicLook, now: TopicLook, at_ms: int) -> bool:
    """Was it written to while its newest timestamp stayed far from now?"""
    written = now.end is not None and before.end is not None and now.end > before.end
    return written and now.newest_ms is not None and abs(at_ms - now.newest_ms) > TIMES_OFF_MS


def grows(before: Look, now: Look, site: str) -> bool:
    """Was any topic of the applications written to at `site` itself? The heartbeat of `gates` stays at LEFT and does
    not count."""
    for topic in now.topics:
        then = before.topic(topic.topic)
        a, b = (then.end, topic.end) if site == "LEFT" else (then.local, topic.local)
        if topic.topic in ("flights", "bookings") and a is not None and b is not None and b > a:
            return True
    return False
