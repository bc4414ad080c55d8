"""The independent checker of a way there and back: applications left HOME, wrote at AWAY, and returned to HOME.

Rules: only the applications' histories and plain scans count, nothing that the engine reports. A record is identified by the
`id` its producer gave it. The tail is what HOME acknowledged before AWAY acknowledged anything and AWAY's mirror topic does
not hold. Effects that the failover, or the decision about the tail, makes unavoidable are a `price` of a statement that
holds; any other is a failure. Incomplete evidence is unknown and never passes.
Where both directions copy the topic under its one name, each cluster has one log with all records: the tail crosses behind
AWAY's newer records, both logs have to hold the same records, and records without an acknowledgement count if they are there.
Not for: one move only (`failover`); reading files or topics.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from drlib.lab.checker.history import CommitStatus, Consumed, History, Mirrored, ProducedStatus
from drlib.lab.checker.key_order import disordered
from drlib.lab.checker.report import decide, first_of, histories_complete, worst
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.check import Check, Verdict


@dataclass(frozen=True, slots=True)
class Trip:
    """The evidence. `home_log`, `away_log`: scans of the mirror topic and the local one on that cluster; `quarantine`: of the
    quarantine topic. `settled`: the decision about the tail; None: the move was planned, so there must be no tail.
    `before_return`: where both directions copy the topic under its one name, AWAY's log of it while HOME had failed; then
    nothing is settled. None: mirror topics have other names. `crossed`: the positions in HOME's topic that AWAY knew of groups
    when they moved, by group and partition: commits behind them were lost with HOME, so that records from them on, and no
    others, are read again. None: they are not known, and any record that is read again there may be one of those."""

    home: str
    away: str
    topic: str
    groups: tuple[str, ...]
    history: History
    home_log: tuple[Mirrored, ...]
    away_log: tuple[Mirrored, ...]
    quarantine: tuple[Mirrored, ...] = ()
    settled: Settle | None = None
    before_return: tuple[Mirrored, ...] | None = None
    crossed: Mapping[tuple[str, int], int] | None = None

    @property
    def unplanned(self) -> bool:
        """Had HOME failed?"""
        return self.settled is not None or self.before_return is not None


@dataclass(frozen=True, slots=True)
class GroupTrip:
    """Records of one group. `again_failover`: read at HOME and again at AWAY, because the last commits had not crossed or the
    producer, without an answer, sent them again; `again_sent`: for the second reason. `again_tail`: read again as records of
    the tail. `again`: read again for any other reason, which is a failure. `late`: of the tail, after newer records of their
    key."""

    group: str
    read: int
    again: int
    again_failover: int
    again_sent: int
    again_tail: int
    skipped: int
    late: int
    out_of_order: int


@dataclass(frozen=True, slots=True)
class TripReport:
    """Counts of acknowledged records. `doubled`: records at two offsets that belong at one. `pauses_s`: seconds without an
    acknowledgement around each move, in order."""

    acknowledged: int
    lost: int
    tail: int
    recovered: int
    quarantined: int
    doubled: int
    groups: tuple[GroupTrip, ...]
    checks: tuple[Check, ...]
    pauses_s: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the checks."""
        return worst(self.checks)


def check_round_trip(trip: Trip) -> TripReport:
    """Judge the way there and back. Never raises, whatever the evidence holds or lacks."""
    produced = [row for row in trip.history.produced if row.topic == trip.topic]
    acked = {row.id: row for row in produced if row.status is ProducedStatus.ACKED}
    doubted = {row.id for row in produced if row.status is ProducedStatus.IN_DOUBT}
    at_home = _ids(trip.home_log, trip.topic)
    back_home = _ids(trip.home_log, f"{trip.away}.{trip.topic}")
    shared = trip.before_return is not None
    mirrored = _ids(trip.away_log, f"{trip.home}.{trip.topic}")
    if trip.before_return is not None:
        mirrored = _ids(trip.before_return, trip.topic)
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
        None: tail <= away.keys() if shared else not tail,
        Settle.RECOVER: tail <= recovered | quarantined,
        Settle.QUARANTINE: tail <= quarantined,
        Settle.LEAVE: tail <= at_home.keys(),
    }[trip.settled]
    rows = [row for row in produced if shared and row.status is not ProducedStatus.MIRRORED]
    sent = Counter(row.id for row in rows)  # without an answer it may be sent again
    twice = [name for log in (at_home, back_home, away, mirrored) for name, n in log.items() if n > max(1, sent[name])]
    both = (at_home.keys() & back_home.keys()) - tail - doubted
    known = bool(acked) and bool(trip.home_log) and bool(trip.away_log)
    due, late, again = acked.keys() - quarantined, tail, doubted
    if shared:
        due = acked.keys() | at_home.keys() | away.keys()
        late = tail | {row.id for row in produced if row.cluster == trip.home and row.id in doubted - mirrored.keys()}
        again = {name for name, times in sent.items() if times > 1}
    groups = tuple(_group(trip, group, due, late, again, moved_ms) for group in trip.groups)
    checks = [
        histories_complete(trip.history.gaps),
        decide(
            "no acknowledged record is lost",
            known,
            not lost,
            f"{len(lost):,} of {len(acked):,} are on neither cluster{first_of(lost)}",
        ),
        decide(
            "the tail is accounted for",
            known and (moved_ms is not None or not trip.unplanned) and trip.before_return != (),
            accounted,
            f"{len(tail)} acknowledged by {trip.home} and not mirrored before it failed: {len(recovered)} crossed late"
            if shared
            else f"{len(tail)} acknowledged by {trip.home} and never mirrored: {len(recovered)} recovered, "
            f"{len(quarantined)} in quarantine, {len(tail - recovered - quarantined)} left where they are",
        ),
        decide(
            "no record is there twice",
            known,
            not twice and not both,
            f"{len(twice)} twice in one topic, {len(both)} in two on {trip.home}{first_of([*twice, *sorted(both)])}",
        ),
    ]
    if shared:
        checks += _same_logs(trip, at_home, away, late)
    for group in groups:
        checks += _group_checks(group, trip)
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
    """`doubted`: records that their producer may have sent to both clusters."""
    topics = {trip.topic, f"{trip.home}.{trip.topic}", f"{trip.away}.{trip.topic}"}
    rows = [row for row in trip.history.consumed if row.group == group and row.topic in topics]
    rows.sort(key=lambda row: row.at_ms)
    places: dict[str, list[Consumed]] = {}
    for row in rows:
        places.setdefault(row.id, []).append(row)
    taken = {
        row.partition: row.offset
        for row in sorted(trip.history.committed, key=lambda row: row.at_ms)  # of several members
        if (row.group, row.cluster, row.topic, row.status) == (group, trip.home, trip.topic, CommitStatus.ACKED)
        and (moved_ms is None or row.at_ms < moved_ms)
    }
    copies = _ids(trip.home_log, trip.topic)
    failover = sent = tails = again = 0
    for name, reads in places.items():
        for at, (earlier, row) in enumerate(itertools.pairwise(reads)):
            over = (earlier.cluster, row.cluster) == (trip.home, trip.away) and trip.unplanned
            back = (earlier.cluster, row.cluster, row.topic) == (trip.away, trip.home, trip.topic)
            not_crossed = trip.crossed is None or (
                earlier.topic == trip.topic and earlier.offset >= trip.crossed.get((group, earlier.partition), 0)
            )
            recovered = over and name in tail and trip.settled is Settle.RECOVER
            not_committed = (
                name in tail and earlier.cluster == row.cluster and earlier.offset >= taken.get(earlier.partition, 0)
            )
            left = trip.settled is Settle.LEAVE and ((back and name in doubted) or not_committed)
            if trip.before_return is not None and over:
                tails += name in tail
                failover += name not in tail
                sent += name not in tail and name in doubted
            elif over and ((row.topic == f"{trip.home}.{trip.topic}" and not_crossed) or name in doubted):
                failover += 1
                sent += row.topic != f"{trip.home}.{trip.topic}"
            elif recovered or left:
                tails += 1
            elif (
                trip.before_return is not None and name in doubted and _is_another(reads[: at + 2], copies[name], trip)
            ):
                failover += 1
                sent += 1
            else:
                again += 1
    late = [row.id in tail for row, _ in disordered(rows)]
    skipped = sum(name not in places for name in due)
    return GroupTrip(group, len(rows), again, failover, sent, tails, skipped, sum(late), len(late) - sum(late))


def _is_another(reads: list[Consumed], copies: int, trip: Trip) -> bool:
    """Is the last read that of another copy of a record which its producer sent to both clusters? `copies`: in one log."""
    *earlier, last = reads
    over = sum((a.cluster, b.cluster) == (trip.home, trip.away) for a, b in itertools.pairwise(reads))
    seen = {(row.cluster, row.partition, row.offset) for row in earlier}
    return len(earlier) - over < copies and (last.cluster, last.partition, last.offset) not in seen


def _group_checks(group: GroupTrip, trip: Trip) -> list[Check]:
    name = f"group {group.group}"
    prices = []
    if group.again_failover:
        prices.append(
            f"{group.again_failover} after the failover, as its last commits or their responses were lost with {trip.home}"
        )
    if group.again_tail and trip.settled is Settle.LEAVE:
        prices.append(
            f"{group.again_tail} of the tail that stayed behind, which their producer had also sent to {trip.away}"
        )
    elif group.again_tail:
        what = "recovered" if trip.before_return is None else "of the tail"
        prices.append(f"{group.again_tail} {what}, which it had read at {trip.home}")
    known = group.read > 0
    again = f"{name} reads nothing again"
    if prices:
        again = f"{name} reads again only what the failover made unavoidable"
    other = " for another reason" if prices else ""
    in_order = f"{name} sees every key in order"
    return [
        decide(again, known, not group.again, f"{group.again} of {group.read} read again{other}", "; ".join(prices)),
        decide(f"{name} skips nothing", known, not group.skipped, f"{group.skipped} never read, {group.read} read"),
        decide(
            f"{in_order}, apart from the {'recovered ' if trip.before_return is None else ''}tail"
            if group.late
            else in_order,
            known,
            not group.out_of_order,
            f"{group.out_of_order} after a later record of their key",
            f"{group.late} of the tail came after newer records of their key" if group.late else "",
        ),
    ]


def _same_logs(trip: Trip, home: Counter[str], away: Counter[str], late: Collection[str]) -> list[Check]:
    """Of a topic that both directions copy: whether both clusters have the same records, and each log its keys in order."""
    one_sided = sorted(home.keys() ^ away.keys())
    checks = [
        decide(
            "both clusters have the same records",
            bool(home) and bool(away),
            not one_sided,
            f"{len(home.keys() - away.keys())} are on {trip.home} alone, {len(away.keys() - home.keys())} on {trip.away} alone"
            f"{first_of(one_sided)}",
        )
    ]
    for alias, log, apart in ((trip.home, trip.home_log, ()), (trip.away, trip.away_log, late)):
        disorder = [row.id for row, _ in disordered(row for row in log if row.topic == trip.topic)]
        wrong = [name for name in disorder if name not in apart]
        checks.append(
            decide(
                f"{alias} has every key in order" + (", apart from the tail" if len(wrong) < len(disorder) else ""),
                bool(log),
                not wrong,
                f"{len(wrong)} lie behind a later record of their key{first_of(wrong)}",
                f"{len(disorder) - len(wrong)} of the tail lie behind newer records of their key"
                if len(wrong) < len(disorder)
                else "",
            )
        )
    return checks


def _pauses(acks: list[tuple[int, str]]) -> tuple[float, ...]:
    """Seconds between the last acknowledgement of one cluster and the first of the next."""
    acks.sort()
    return tuple(
        (after - before) / 1000 for (before, cluster), (after, other) in itertools.pairwise(acks) if cluster != other
    )


def _ids(log: Iterable[Mirrored], topic: str) -> Counter[str]:
    return Counter(row.id for row in log if row.topic == topic)
