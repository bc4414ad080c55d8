"""The independent checker of a way there and back: applications left HOME, wrote at AWAY, and came back to HOME.

Rules: it trusts what applications wrote down and what plain scans found, and nothing the engine says. A record is the `id` its
producer gave it. The tail is what HOME acknowledged before AWAY acknowledged anything and AWAY's mirror of it does not hold.
What is a stated price of the failover, or of what was decided about the tail, is told apart from what must never be: such a
check holds under conditions, and its evidence states the price. What nobody wrote down is unknown, never pass.
Not for: one move only (`checker`); reading files or topics.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from drlib.lab.checker.history import CommitStatus, Consumed, History, Mirrored, ProducedStatus
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.check import Check, Verdict


@dataclass(frozen=True, slots=True)
class Trip:
    """What is judged. `home_log`, `away_log`: scans of both topics there, the mirror and the local one; `quarantine`: of the
    tail's. `settled`: what was decided about the tail; None: the move was planned, and there must be none."""

    home: str
    away: str
    topic: str
    groups: tuple[str, ...]
    history: History
    home_log: tuple[Mirrored, ...]
    away_log: tuple[Mirrored, ...]
    quarantine: tuple[Mirrored, ...] = ()
    settled: Settle | None = None


@dataclass(frozen=True, slots=True)
class GroupTrip:
    """`again_failover`: read at HOME and again at AWAY, as its last commits had not crossed or its producer, unanswered, sent
    it again. `again_tail`: read again as a record of the tail. `again`: read again otherwise, which must never be."""

    group: str
    read: int
    again: int
    again_failover: int
    again_tail: int
    skipped: int
    late: int  # of the tail, behind newer records of their key
    out_of_order: int


@dataclass(frozen=True, slots=True)
class TripReport:
    """Counts are of acknowledged records. `doubled`: records in two places that belong in one."""

    acknowledged: int
    lost: int
    tail: int
    recovered: int
    quarantined: int
    doubled: int
    groups: tuple[GroupTrip, ...]
    checks: tuple[Check, ...]
    pauses_s: tuple[float, ...]  # around each move, in their order

    @property
    def verdict(self) -> Verdict:
        """The worst: fail, else unknown, else pass."""
        verdicts = {one.verdict for one in self.checks}
        return next((v for v in (Verdict.FAIL, Verdict.UNKNOWN) if v in verdicts), Verdict.PASS)


def check_round_trip(trip: Trip) -> TripReport:
    """Never raises for what the evidence holds or lacks."""
    produced = [row for row in trip.history.produced if row.topic == trip.topic]
    acked = {row.id: row for row in produced if row.status is ProducedStatus.ACKED}
    doubted = {row.id for row in produced if row.status is ProducedStatus.IN_DOUBT}
    at_home = _ids(trip.home_log, trip.topic)
    back_home = _ids(trip.home_log, f"{trip.away}.{trip.topic}")
    mirrored = _ids(trip.away_log, f"{trip.home}.{trip.topic}")
    away = _ids(trip.away_log, trip.topic)
    aside = Counter(row.id for row in trip.quarantine)
    moved_ms = min((row.acked_ms for row in acked.values() if row.cluster == trip.away), default=None)
    tail = {
        name
        for name, row in acked.items()
        if row.cluster == trip.home and moved_ms is not None and row.acked_ms < moved_ms and name not in mirrored
    }
    lost = [name for name in acked if not (name in at_home or name in back_home or name in aside)]
    recovered, quarantined = tail & away.keys(), tail & aside.keys()
    accounted = {
        None: not tail,
        Settle.RECOVER: tail <= recovered | quarantined,
        Settle.QUARANTINE: tail <= quarantined,
        Settle.LEAVE: tail <= at_home.keys(),
    }[trip.settled]
    twice = [name for log in (at_home, back_home, away, mirrored) for name, n in log.items() if n > 1]
    both = (at_home.keys() & back_home.keys()) - tail - doubted
    known = bool(acked) and bool(trip.home_log) and bool(trip.away_log)
    groups = tuple(_group(trip, group, acked.keys() - quarantined, tail, doubted, moved_ms) for group in trip.groups)
    checks = [
        _whole(trip),
        _said(
            "no acknowledged record is lost", known, not lost, f"{len(lost)} of {len(acked)} are nowhere{_first(lost)}"
        ),
        _said(
            "the tail is accounted for",
            known and (moved_ms is not None or trip.settled is None),
            accounted,
            f"{len(tail)} acknowledged by {trip.home} and never mirrored: {len(recovered)} recovered, {len(quarantined)} in "
            f"quarantine, {len(tail - recovered - quarantined)} left where they are",
        ),
        _said(
            "no record is there twice",
            known,
            not twice and not both,
            f"{len(twice)} twice in one topic, {len(both)} in two on {trip.home}{_first([*twice, *sorted(both)])}",
        ),
    ]
    for group in groups:
        checks += _judged(group, trip)
    return TripReport(
        len(acked),
        len(lost),
        len(tail),
        len(recovered),
        len(quarantined),
        len({*twice, *both}),
        groups,
        tuple(checks),
        _pauses([(row.acked_ms, row.cluster) for row in acked.values()]),
    )


def _group(
    trip: Trip,
    group: str,
    due: Collection[str],
    tail: Collection[str],
    doubted: Collection[str],
    moved_ms: int | None,
) -> GroupTrip:
    topics = {trip.topic, f"{trip.home}.{trip.topic}", f"{trip.away}.{trip.topic}"}
    rows = [row for row in trip.history.consumed if row.group == group and row.topic in topics]
    rows.sort(key=lambda row: row.at_ms)
    places: dict[str, list[Consumed]] = {}
    for row in rows:
        places.setdefault(row.id, []).append(row)
    taken = {
        row.partition: row.offset
        for row in trip.history.committed
        if (row.group, row.cluster, row.topic, row.status) == (group, trip.home, trip.topic, CommitStatus.ACKED)
        and (moved_ms is None or row.at_ms < moved_ms)
    }
    failover = tails = again = 0
    for name, reads in places.items():
        for earlier, row in itertools.pairwise(reads):
            over = (earlier.cluster, row.cluster) == (trip.home, trip.away) and trip.settled is not None
            back = (earlier.cluster, row.cluster, row.topic) == (trip.away, trip.home, trip.topic)
            recovered = over and name in tail and trip.settled is Settle.RECOVER
            unheard = (
                name in tail and earlier.cluster == row.cluster and earlier.offset >= taken.get(earlier.partition, 0)
            )
            left = trip.settled is Settle.LEAVE and ((back and name in doubted) or unheard)
            if over and (row.topic == f"{trip.home}.{trip.topic}" or name in doubted):
                failover += 1
            elif recovered or left:
                tails += 1
            else:
                again += 1
    late = disordered = 0
    seen: set[str] = set()
    last: dict[str, int] = {}
    for row in rows:
        if row.id in seen:
            continue
        seen.add(row.id)
        if row.n < last.get(row.key, -1):
            late, disordered = (late + 1, disordered) if row.id in tail else (late, disordered + 1)
        last[row.key] = max(row.n, last.get(row.key, -1))
    skipped = sum(name not in places for name in due)
    return GroupTrip(group, len(rows), again, failover, tails, skipped, late, disordered)


def _judged(group: GroupTrip, trip: Trip) -> list[Check]:
    name = f"group {group.group}"
    prices = []
    if group.again_failover:
        prices.append(
            f"{group.again_failover} after the failover, as its last commits, or an answer, died with {trip.home}"
        )
    if group.again_tail and trip.settled is Settle.LEAVE:
        prices.append(
            f"{group.again_tail} of the tail that was left, which their producer had sent to {trip.away} as well"
        )
    elif group.again_tail:
        prices.append(f"{group.again_tail} recovered, which it had read at {trip.home}")
    known = group.read > 0
    return [
        _said(
            f"{name} reads nothing again", known, not group.again, f"{group.again} of {group.read}", "; ".join(prices)
        ),
        _said(f"{name} skips nothing", known, not group.skipped, f"{group.skipped} never read, {group.read} read"),
        _said(
            f"{name} sees every key in order",
            known,
            not group.out_of_order,
            f"{group.out_of_order} behind a later record of their key",
            f"{group.late} of the tail came behind newer records of their key" if group.late else "",
        ),
    ]


def _pauses(acks: list[tuple[int, str]]) -> tuple[float, ...]:
    """Seconds without an acknowledgement where one cluster's end and another's begin."""
    acks.sort()
    return tuple(
        (after - before) / 1000 for (before, cluster), (after, other) in itertools.pairwise(acks) if cluster != other
    )


def _ids(log: Iterable[Mirrored], topic: str) -> Counter[str]:
    return Counter(row.id for row in log if row.topic == topic)


def _whole(trip: Trip) -> Check:
    history = trip.history
    gaps = [f"missing: {name}" for name in history.missing] + [f"not ended: {name}" for name in history.open]
    gaps += [f"torn lines: {history.torn}"] * bool(history.torn)
    return _said("the histories are whole", not gaps, True, "; ".join(gaps) or "every history ends with its end line")


def _said(name: str, known: bool, holds: bool, evidence: str, price: str = "") -> Check:
    if not known:
        return Check(name, Verdict.UNKNOWN, f"not enough was written down to say; {evidence}")
    if price and holds:
        return Check(name, Verdict.CONDITIONS, f"{evidence}; {price}")
    return Check(name, Verdict.PASS if holds else Verdict.FAIL, evidence)


def _first(names: Collection[str]) -> str:
    return f"; the first: {next(iter(names))}" if names else ""
