"""The verdict on a run: every topic by the rule for its kind, and anomalies during the run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from fix_engine import Engine

from drlib.mirror.journal.entries import (
    Entry,
    Incarnation,
    Parked,
    SourceLoss,
    SourcePartition,
    SourceTruncated,
    Unsure,
)
from drlib.mirror.status import worker_status as status
from soak import judge
from soak.judge import Finding, Log
from soak.logs import Journaled, journaled, scan
from soak.testbed import AGAIN, COMPACT, LANES, LOSSY, OLD, UNCLEAN, Testbed, mirror, topic

# Events that must be resolved when every fault is repaired; others are facts that stay reported.
NEVER = {"SourceCorrupt"}  # no fault of the plan damages batches, so even a short report is wrong
PASSING = {"LaneFault", "LaneFailed", "SourceUnreachable", "DiscoveryFailed", "FlowUnreachable", "Parked"}


def verdict(testbed: Testbed) -> list[Finding]:
    found = [Finding("the run", "something happened that no fault explains", each) for each in testbed.anomalies]
    ledger = asyncio.run(journaled(testbed.right, testbed.journal, LANES))
    for sort, count in testbed.partitions.items():
        traffic = testbed.traffic[sort]
        if traffic.refused:
            found.append(Finding(topic(sort), f"{len(traffic.refused)} records were refused", traffic.refused[0]))
        here, there = scan(testbed.left, topic(sort), count), scan(testbed.right, mirror(sort), count)
        for n in range(count):
            where, acked = f"{topic(sort)}-{n}", traffic.acked[n].sorted()
            if sort == COMPACT:
                found += judge.newest_stand(
                    where, acked, traffic.key_of, here[n], there[n], frozenset(traffic.in_doubt)
                )
            elif sort == AGAIN:
                lives = [*(life[n].sorted() for life in traffic.lives), acked]
                gone = [e for e in ledger.entries if isinstance(e, Incarnation) and e.source_topic == topic(sort)]
                found += judge.incarnations_stand(where, lives, there[n], len(gone), frozenset(traffic.in_doubt))
            elif sort == UNCLEAN and _stopped(ledger, topic(sort), n):
                in_time = Log(sorted(acked, key=lambda row: row[1]))  # offsets were given twice
                found += judge.prefix_stands(where, in_time, frozenset(traffic.in_doubt), here[n], there[n])
            elif sort == LOSSY:
                found += _lossy(testbed, where, n, acked, there[n], ledger)
            else:
                # A broker that comes back forgets producers by their records' timestamps: the retry of an old record
                # whose acknowledgement was lost then stands twice on the source, and has to in the mirror.
                own = len(here[n]) if sort == OLD else 0
                if sort != UNCLEAN:  # whose source may lose what it acknowledged
                    found += judge.acknowledged_stand(where, acked, here[n], frozenset(traffic.in_doubt), own)
                found += judge.compare(where, "on the source", here[n], "in the mirror", there[n])
                mapped = ledger.maps.source(topic(sort), n)
                stretches = mapped.segments() if mapped is not None else ()
                segments = [(s.source, s.target, s.count) for s in stretches]
                found += judge.map_is_exact(where, segments, here[n], there[n])
    return found + _still_open(testbed.engine, len(testbed.workers))


def _lossy(testbed: Testbed, where: str, partition: int, acked: Log, there: Log, ledger: Journaled) -> list[Finding]:
    """Records deleted on the source before they crossed, and on the mirror before they were counted."""
    mine = _of(ledger.entries, ledger, topic(LOSSY), partition)
    losses = [(e.first, e.next_offset) for e in mine if isinstance(e, SourceLoss)]
    doubtful = sum(e.high - e.low for e in mine if isinstance(e, Unsure))
    whole = Log(testbed.seen[partition])
    known = whole.offsets[-1] if len(whole) else -1
    for row in there:
        if row[0] > known:
            whole.add(*row)
    found = judge.compare(
        where,
        "acknowledged",
        acked,
        "in the mirror",
        whole,
        in_doubt=frozenset(testbed.traffic[LOSSY].in_doubt),
        may_miss=_inside(losses),
        may_double=doubtful,
    )
    too_far = [(a, b) for a, b in losses if b > testbed.deleted.get(partition, 0)]
    if too_far:
        found.append(Finding(where, "more records were reported as lost than were deleted", f"{too_far}"))
    return found


def _inside(stretches: list[tuple[int, int]]) -> Callable[[int], bool]:
    return lambda offset: any(first <= offset < end for first, end in stretches)


def _stopped(ledger: Journaled, name: str, partition: int) -> bool:
    """Whether the engine reported that the partition's source lost records."""
    return any(isinstance(e, SourceTruncated | Parked) for e in _of(ledger.entries, ledger, name, partition))


def _of(entries: tuple[Entry, ...], ledger: Journaled, name: str, partition: int) -> list[Entry]:
    ids = {topic_id for topic_id, names in ledger.maps.names.items() if names.source_topic == name}
    found = []
    for entry in entries:
        key = getattr(entry, "partition", None)
        if isinstance(key, SourcePartition) and key.topic_id in ids and key.partition == partition:
            found.append(entry)
    return found


def _still_open(engine: Engine, workers: int) -> list[Finding]:
    """Faults that a living worker tells as lasting though everything is healed."""
    lasting: dict[str, list[str]] = defaultdict(list)
    alive = [n for n, process in enumerate(engine.processes) if process.poll() is None][-workers:]
    for number in alive:
        try:
            events = status.read(engine.status_path(number)).events
        except Exception as unreadable:
            lasting["no status"].append(str(unreadable))
            continue
        for event in events:
            if event.name in NEVER or (event.name in PASSING and event.resolved_ms is None):
                lasting[event.name].append(f"{event.entity}: {event.detail}")
    return [Finding("the workers", f"{name} is open", "; ".join(d)[:600]) for name, d in lasting.items()]
