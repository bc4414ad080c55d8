"""Decide which cluster stands by, and which of its producers and records are those of clients. Pure.

Rules:
- The newest pointer of all applications decides which cluster serves; where there is none, the record that drills keep of the
  flow or of the flow back, the newer one. Where neither says anything, one that copies back what it gets may serve as well,
  and so may the other one: then none stands by. Of any other flow the target does, which clients do not write mirrors on.
- A cluster stands by from when the pointer first named the other one. What was written before that was written as it served.
- A producer is a client unless its ID is one of a claim of the flow to that cluster, or its transactional ID is drlib's. A
  cluster gives a producer ID once, and a claim is journaled before its first batch: so the producers and the log's end are
  read first, and then the journal.
- Brokers know a producer by its ID for about a day. One without an ID is known by its records alone: how many such producers
  there are, and who they are, is not known.
- Times are those of records, which producers set.
Source: KIP-664 (DescribeProducers), Kafka's ProducerStateManager (`producer.id.expiration.ms`).
Not for: reading logs (`logs`), judging what is found (`drlib.drill.readiness.checks.writers`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.client.history.entries import Past
from drlib.client.pointer import Pointer
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import target_serves
from drlib.kafka.protocol.batch import NO_PRODUCER
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_logs import in_doubt
from drlib.mirror.offsets.translation.shared_position import may_be_own
from drlib.mirror.source_producers.leaders import OURS, Known
from drlib.model import Flow, TopicPartition

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MOST_PARTS: Final = 1_000  # of one log

Parts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Count:
    """Records, and the newest time of one (Unix ms; -1: not known)."""

    records: int = 0
    last_ms: int = -1

    def __add__(self, other: Count) -> Count:
        return Count(self.records + other.records, max(self.last_ms, other.last_ms))


@dataclass(frozen=True, slots=True)
class Counted:
    """What clients wrote to one partition or topic, by producer ID. `unread`: how many offsets were not looked at, so that
    these are the least numbers."""

    by_producer: Mapping[int, Count]
    unread: int = 0

    @property
    def records(self) -> int:
        return sum(each.records for each in self.by_producer.values())


@dataclass(frozen=True, slots=True)
class Written:
    """How many records clients wrote to a topic on one cluster within an hour; `at_least`: some of the log was not read."""

    records: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class TopicWritten:
    """A topic that both directions copy under one name: by cluster what its clients wrote, or why that is not known."""

    topic: str
    by_cluster: Mapping[str, Written | str]


@dataclass(frozen=True, slots=True)
class Standby:
    """`alias` stands by while `active` serves, since `since_ms` (Unix ms; 0: as long as is known). `by`: what says so."""

    alias: str
    active: str
    since_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class Writer:
    """A producer of a client on the cluster that stands by. `producer_id` -1: all that have none. `records`: since it stands
    by, and of the last day; `at_least`: some of the log was not read. `last_ms`: of its newest record, -1 where not known.
    `name`: its transactional ID, "" where it has none or it is not known."""

    topic: str
    producer_id: int
    epoch: int
    partitions: tuple[int, ...]
    records: int
    last_ms: int
    name: str = ""
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class StandbyWriters:
    """`standby` None: it is not known which cluster stands by, or none does, for the reason `why`. `since_ms`: from when on was
    looked. `partitions`: of the flow on that cluster; `own`: producers that are the mirror's. `missing`: partitions that were
    not asked about, and why; `unread`: offsets that were not looked at."""

    standby: Standby | None
    why: str = ""
    since_ms: int = 0
    partitions: int = 0
    own: int = 0
    writers: tuple[Writer, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    unread: int = 0


def served_since(pointer: Pointer, written_ms: int, history: Iterable[Past]) -> int:
    """From when on (Unix ms) the cluster that `pointer` names has served; `written_ms`: when the pointer was written, and
    `history`: the earlier ones of all applications. 0 where no time is known."""
    since = written_ms
    for past in sorted(history, key=lambda each: each.pointer.version, reverse=True):
        if past.pointer.version >= pointer.version:
            continue
        if past.pointer.active != pointer.active:
            break
        since = min(since, past.written_ms) if since > 0 else past.written_ms
    return max(0, since)


def standby_by_pointer(flow: Flow, active: str, since_ms: int) -> Standby:
    """The cluster of `flow` that stands by while the pointer names `active`."""
    alias = flow.source if active == flow.target else flow.target
    return Standby(alias, active, since_ms, f"the pointer names {active}")


def standby_by_state(flow: Flow, record: LeaseRecord, back: LeaseRecord | None, *, copied_back: bool) -> Standby | None:
    """The same where there is no pointer. `record` and `back`: what drills keep of the flow and of the flow back.
    `copied_back`: may the flow back copy what this one copies, under one name?"""
    known = [(each.since_ms, of, each) for of, each in ((flow, record), (flow.reverse, back)) if each and each.run]
    if not known:
        said = f"{flow} copies to {flow.target} alone, and no drill has moved it"
        return None if copied_back else Standby(flow.target, flow.source, 0, said)
    since_ms, of, newest = max(known, key=lambda each: each[0])
    served = target_serves(newest.state)
    active = of.target if served else of.source
    alias = flow.source if active == flow.target else flow.target
    return Standby(alias, active, since_ms, f"{of} is {newest.state}")


def own_records(offsets: PartitionMap | None, start: int, end: int) -> tuple[Written, Parts]:
    """How many records of [`start`, `end`) of a source's log the map has as copied, which are the source's own, and the parts
    of the log whose records it says nothing of. `offsets`: of the flow from that cluster; None where there is no map."""
    if start >= end:
        return Written(0), ()
    if offsets is None or in_doubt(offsets, None):
        return Written(0), ((start, end),)
    most, least = offsets.segments().mirrored(start, end), offsets.segments().mirrored_at_least(start, end)
    begin = start if offsets.taken is None else max(start, min(end, offsets.taken.takeover.source_offset))
    # MirrorMaker 2 copied it, and how many records it is has to be read.
    taken = ((start, begin),) if start < begin else ()
    return Written(least, least < most), (*taken, *offsets.absent(begin, end))


def not_of_the_flow(offsets: PartitionMap | None, start: int, end: int) -> Parts:
    """The parts of [`start`, `end`) of a target's log that the flow to that cluster is not known to have written; what lies
    behind `MOST_PARTS` of them is one part. `offsets`: of that flow; None where there is no map."""
    if start >= end:
        return ()
    if offsets is None:
        return ((start, end),)
    found: list[tuple[int, int]] = []
    for part in may_be_own(offsets, [(start, end)]):
        found.append(part)
        if len(found) == MOST_PARTS:
            return (*found[:-1], (found[-1][0], end))
    return tuple(found)


def written(of_map: Iterable[Written], read: Iterable[Counted]) -> Written:
    """Of a topic: what maps have, and what clients wrote to the parts that were read."""
    records, at_least = 0, False
    for each in of_map:
        records, at_least = records + each.records, at_least or each.at_least
    for one in read:
        records, at_least = records + one.records, at_least or one.unread > 0
    return Written(records, at_least)


def of_clients(counts: Counted, claimed: Collection[int]) -> Counted:
    """Without the records that the flow to that cluster wrote. `claimed`: the producer IDs of its claims."""
    return Counted({each: n for each, n in counts.by_producer.items() if each not in claimed}, counts.unread)


def is_client(producer: Known, claimed: Collection[int]) -> bool:
    """Is a producer that a leader knows a client's?"""
    return producer.state.producer_id not in claimed and not producer.name.startswith(OURS)


def unknown_producers(known: Iterable[Known], counts: Iterable[Counted], claimed: Collection[int]) -> set[int]:
    """The IDs that are of no claim which is known: those of clients, or of a claim that began since the journal was read."""
    found = {each.state.producer_id for each in known} | {each for one in counts for each in one.by_producer}
    return found - {NO_PRODUCER, *claimed}


def writers(
    known: Iterable[Known], counted: Mapping[TopicPartition, Counted], claimed: Collection[int], since_ms: int
) -> tuple[Writer, ...]:
    """The clients, by topic and producer ID, those that wrote last first.

    `known`: what leaders know; `counted`: records since `since_ms`. A producer whose newest record is older is left out.
    """
    states: dict[tuple[str, int], list[Known]] = {}
    own: set[int] = set(claimed)
    for each in known:
        if is_client(each, claimed):
            states.setdefault((each.partition.topic, each.state.producer_id), []).append(each)
        else:
            own.add(each.state.producer_id)
    counts: dict[tuple[str, int], dict[int, Count]] = {}
    unread: set[str] = set()
    for partition, all_counts in counted.items():
        clients = of_clients(all_counts, own)
        if clients.unread:
            unread.add(partition.topic)
        for producer_id, count in clients.by_producer.items():
            counts.setdefault((partition.topic, producer_id), {})[partition.partition] = count
    found = []
    for topic, producer_id in sorted(states.keys() | counts.keys()):
        seen, of = states.get((topic, producer_id), []), counts.get((topic, producer_id), {})
        total = sum(of.values(), Count())
        last_ms = max([total.last_ms, *(each.state.last_timestamp for each in seen)])
        if not total.records and 0 <= last_ms < since_ms:
            continue
        parts = {each.partition.partition for each in seen if _since(each, since_ms)} | of.keys()
        epoch = max((each.state.epoch for each in seen), default=-1)
        name = next((each.name for each in seen if each.name), "")
        at_least = topic in unread
        found.append(Writer(topic, producer_id, epoch, tuple(sorted(parts)), total.records, last_ms, name, at_least))
    return tuple(sorted(found, key=lambda each: (-each.last_ms, each.topic, each.producer_id)))


def _since(each: Known, since_ms: int) -> bool:
    return each.state.last_timestamp < 0 or each.state.last_timestamp >= since_ms
