"""Decides which transactions of a source the target has whole, in part or not at all, from what was recorded on the target.

Rules:
- With transaction version 2 (clients of Kafka 4, KIP-890) every transaction of a producer has its own epoch, so that
  producer ID and epoch name it. With earlier versions epochs stay: there the number of a commit marker in its partition,
  counted from where the epoch began, names the transaction that `__transaction_state` has with that number for the partition.
  Without numbers such a transaction is complete where every partition that the producer used is past a marker of the same
  producer that is newer by more than brokers' clocks may differ, else it is not determined.
- Partitions advance by themselves and each in order: what a producer wrote before something of it that was read, was read.
- A transaction is partial where something of it is on the target, and something else is known not to be: a part of one
  partition, or all of another one that it has by `__transaction_state`. Of one from before the mirror (`early`), of which a
  partition has nothing, the records may lie before those that are mirrored: that is not known.
- It is complete only where its partitions are known and each has all of it. Unknown is a verdict: a transaction whose
  partitions are not known, whose marker was not read, or that is older than what was kept, is not determined.
- Times are compared only to doubt, and never to call a transaction complete, apart from those of earlier versions.
Not for: reading the journal (`find`), a source that came back (`tail`), and what becomes of groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent, partitions_of
from drlib.model import TopicPartition

CLOCKS_MS: Final = 10_000
"""How much the clocks of brokers of one cluster may differ."""
OWN_EPOCHS: Final = 2
"""The transaction version from which on each transaction of a producer has an epoch of its own."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
OPEN_WHY: Final = "its marker was not read, so that more records may follow"
UNKNOWN_WHY: Final = "what a partition has of it is not known"


class State(StrEnum):
    """What of a transaction in one partition is on the target."""

    WHOLE = "all of it"
    PART = "a part"
    NONE = "nothing"
    OPEN = "all that was read"  # its marker was not read: more may follow
    UNKNOWN = "not known"
    RECOVERED = "all of it, with what was recovered"


class Verdict(StrEnum):
    COMPLETE = "complete"
    PARTIAL = "partial"
    ABSENT = "absent"
    NOT_DETERMINED = "not determined"


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """What is known of a source partition: `reached`, below which all is on the target (None: unknown), what was read of
    transactions, in log order, and whether earlier events were `dropped`."""

    partition: TopicPartition
    reached: int | None
    events: tuple[TransactionEvent, ...] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A transaction in one source partition. Offsets are those of its records that were read, `first` -1 without any;
    `present` of `known` records are on the target. `rest`: where what is missing is, "" where that is not asked."""

    partition: TopicPartition
    state: State
    first: int = -1
    end: int = -1
    known: int = 0
    present: int = 0
    rest: str = ""


@dataclass(frozen=True, slots=True)
class FoundTransaction:
    """`epoch`: of its records. `why` says what is not known, of one that is not determined. `own_epoch`: does no other
    transaction of the producer have that epoch?"""

    producer_id: int
    epoch: int
    transactional_id: str
    verdict: Verdict
    parts: tuple[Part, ...]
    why: str = ""
    own_epoch: bool = True

    @property
    def present(self) -> int:
        return sum(part.present for part in self.parts)


@dataclass(frozen=True, slots=True)
class Decision:
    """`transactions`: those of which something is on the target, in the order of their producers and epochs. `absent`: those
    of which nothing is, as far as their partitions are known. `older`: partitions that may be behind transactions which are
    no longer recorded; `unread`: those that may lack parts of transactions which were never read."""

    transactions: tuple[FoundTransaction, ...]
    absent: tuple[FoundTransaction, ...] = ()
    older: tuple[TopicPartition, ...] = ()
    unread: tuple[TopicPartition, ...] = ()

    def of(self, verdict: Verdict) -> tuple[FoundTransaction, ...]:
        return tuple(each for each in self.transactions if each.verdict is verdict)


@dataclass(slots=True)
class _Seen:
    """One transaction as read in one partition; `marker`: the offset of its marker, -1 while it was not read; `nth`: its number
    there among those of its epoch, 0 where that is not known."""

    producer_id: int
    epoch: int
    version: int = 0  # 0: not known
    marker: int = -1
    at_ms: int = 0
    nth: int = 0
    pieces: list[TransactionEvent] = field(default_factory=list)


def decide(logs: Iterable[PartitionLog], committed: Sequence[TransactionCommitted]) -> Decision:
    """Decide about every transaction that is recorded. `committed`: oldest first, as far as recorded."""
    by_partition = {log.partition: _Log(log) for log in logs}
    prepared: dict[tuple[int, int], TransactionCommitted] = {}
    earlier: dict[int, list[TransactionCommitted]] = defaultdict(list)
    for each in committed:
        if each.version >= OWN_EPOCHS:
            prepared[each.producer_id, each.epoch - 1] = each
        else:
            earlier[each.producer_id].append(each)
    # By producer and epoch of the records: a client that is replaced by a newer one may keep its producer ID.
    versions = dict.fromkeys(prepared, OWN_EPOCHS)
    for each_log in by_partition.values():
        versions |= {(seen.producer_id, seen.epoch): seen.version for seen in each_log.seen if seen.version}
    versions |= {(each.producer_id, each.epoch): 1 for of in earlier.values() for each in of}
    named = {producer for producer, _ in versions}
    found: list[FoundTransaction] = []
    seen_in: dict[tuple[int, int], dict[TopicPartition, _Log]] = defaultdict(dict)
    for partition, log in by_partition.items():
        for seen in log.seen:
            # A marker whose records are not recorded has the epoch behind theirs.
            if versions.get((seen.producer_id, seen.epoch)) != 1:
                seen_in[seen.producer_id, seen.epoch if seen.pieces else seen.epoch - 1][partition] = log
    for (producer, epoch), mine in sorted(seen_in.items()):
        committed_as = prepared.get((producer, epoch))
        # Of which version it is shows by a marker. Before one was read, another partition may have another transaction.
        one = (producer, epoch) in versions
        for logs_of_one in [mine] if one else [{partition: log} for partition, log in mine.items()]:
            found.append(_decided(producer, epoch, logs_of_one, by_partition, committed_as, is_named=producer in named))
    for producer in sorted({producer for (producer, _), version in versions.items() if version == 1}):
        epochs = {epoch for (of, epoch), version in versions.items() if of == producer and version == 1}
        later = [each for (of, _), each in prepared.items() if of == producer]
        found += _of_earlier_version(producer, epochs, by_partition, earlier[producer], later)
    for (producer, epoch), committed_as in prepared.items():
        if (producer, epoch) not in seen_in:
            found.append(_decided(producer, epoch, {}, by_partition, committed_as, is_named=True))
    found.sort(key=lambda each: (each.producer_id, each.epoch))
    absent = tuple(each for each in found if each.verdict is Verdict.ABSENT and each.transactional_id)
    there = tuple(each for each in found if each.verdict is not Verdict.ABSENT)
    return Decision(
        tuple(each for each in there if each.present or each.verdict is Verdict.PARTIAL),
        absent,
        _older(found, by_partition, committed),
    )


class _Log:
    """A partition's events as transactions."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.seen: list[_Seen] = []
        self.floor = min((event.first for event in log.events), default=0)
        self.oldest_ms = next((event.at_ms for event in log.events if event.is_marker), 0)
        open_ones: dict[int, _Seen] = {}
        end = 0
        marker = -1
        for event in sorted(set(log.events), key=lambda event: (event.first, event.end, -event.nth)):
            if event.first == marker if event.is_marker else event.end <= end:
                continue  # read twice
            seen = open_ones.get(event.producer_id)
            if event.is_marker:
                marker = event.first
                if seen is None or event.epoch not in (seen.epoch, seen.epoch + 1):
                    seen = self._new(event, event.epoch)  # its records are no longer recorded, or there are none
                else:
                    seen.version = OWN_EPOCHS if event.epoch > seen.epoch else 1
                seen.nth = event.nth
                seen.marker, seen.at_ms = event.first, event.at_ms
                open_ones.pop(event.producer_id, None)
                continue
            if event.first < end:
                event = event._replace(first=end, records=min(event.records, event.end - end))
            end = event.end
            if seen is None or (seen.epoch, seen.nth) != (event.epoch, event.nth):
                seen = open_ones[event.producer_id] = self._new(event, event.epoch)
                seen.nth = event.nth
            seen.pieces.append(event)

        self._by_epoch = {(s.producer_id, s.epoch): s for s in reversed(self.seen) if s.pieces}
        self._markers = {(s.producer_id, s.epoch): s for s in self.seen if not s.pieces}
        self._newest: dict[int, int] = {}
        for seen in self.seen:
            epoch = seen.epoch if seen.pieces else seen.epoch - 1
            self._newest[seen.producer_id] = max(epoch, self._newest.get(seen.producer_id, 0))
        self._by_number = {(s.producer_id, s.epoch, s.nth): s for s in self.seen}
        self._newest_number: dict[int, tuple[int, int]] = {}
        for seen in self.seen:
            newest = self._newest_number.get(seen.producer_id, (-1, -1))
            self._newest_number[seen.producer_id] = max(newest, (seen.epoch, seen.nth))

    def _new(self, event: TransactionEvent, epoch: int) -> _Seen:
        seen = _Seen(event.producer_id, epoch)
        self.seen.append(seen)
        return seen

    def of(self, producer: int, epoch: int) -> _Seen | None:
        """The transaction of version 2. A marker whose records are not recorded has the epoch behind theirs."""
        return self._by_epoch.get((producer, epoch)) or self._markers.get((producer, epoch + 1))

    def is_past(self, producer: int, epoch: int) -> bool:
        """Was something read that the producer wrote after that transaction?"""
        return self._newest.get(producer, -1) > epoch

    def part(self, seen: _Seen, *, early: bool = False) -> Part:
        reached, pieces = self.log.reached, seen.pieces
        first, end = (pieces[0].first, pieces[-1].end) if pieces else (-1, -1)
        known = sum(piece.records for piece in pieces)
        if reached is None:
            return Part(self.log.partition, State.UNKNOWN, first, end, known)
        present = sum(min(piece.records, max(0, reached - piece.first)) for piece in pieces)
        if present < known:
            state = State.PART if present else State.NONE
        elif not pieces and (early or reached < self.floor):
            state = State.UNKNOWN
        else:
            state = State.WHOLE if seen.marker >= 0 else State.OPEN
        return Part(self.log.partition, state, first, end, known, present)

    def numbered(self, committed: TransactionCommitted, nth: int) -> Part:
        """The part of a transaction of an earlier version, the `nth` of its epoch in this partition; 0: not known."""
        producer, epoch = committed.producer_id, committed.epoch
        seen = self._by_number.get((producer, epoch, nth)) if nth else None
        if seen is not None and 0 < seen.at_ms < committed.at_ms - CLOCKS_MS:
            return Part(self.log.partition, State.UNKNOWN)  # a marker follows the decision: it is another's
        if seen is not None:
            return self.part(seen, early=committed.early)
        if not nth or (producer, epoch, 0) in self._by_number:
            return Part(self.log.partition, State.UNKNOWN)
        return self._unseen(committed, is_past=self._newest_number.get(producer, (-1, -1)) > (epoch, nth))

    def unseen(self, producer: int, epoch: int, committed: TransactionCommitted) -> Part:
        """The part of a transaction of which nothing was recorded here, although it has the partition."""
        return self._unseen(committed, is_past=self.is_past(producer, epoch))

    def _unseen(self, committed: TransactionCommitted, *, is_past: bool) -> Part:
        reached = self.log.reached
        if reached is None:
            state = State.UNKNOWN
        elif reached >= self.floor and is_past and (self.log.dropped or not committed.early):
            state = State.WHOLE  # it is older than what is recorded, or wrote nothing here
        elif committed.early or (self.log.dropped and committed.at_ms <= self.oldest_ms + CLOCKS_MS):
            state = State.UNKNOWN
        else:
            state = State.NONE
        return Part(self.log.partition, state)


def _none(partition: TopicPartition, committed: TransactionCommitted) -> Part:
    """The part in a partition of which nothing was mirrored."""
    return Part(partition, State.UNKNOWN if committed.early else State.NONE)


def _decided(
    producer: int,
    epoch: int,
    mine: Mapping[TopicPartition, _Log],
    logs: Mapping[TopicPartition, _Log],
    committed: TransactionCommitted | None,
    *,
    is_named: bool,
) -> FoundTransaction:
    """`mine`: the partitions in which something of it was read. `is_named`: is it known that the epoch is its own?"""
    early = committed is not None and committed.early
    parts = {p: log.part(seen, early=early) for p, log in mine.items() if (seen := log.of(producer, epoch)) is not None}
    if committed is not None:
        for partition in partitions_of(committed):
            if partition in parts or partition.topic == OFFSETS_TOPIC:
                continue
            log = logs.get(partition)
            parts[partition] = _none(partition, committed) if log is None else log.unseen(producer, epoch, committed)
    name = committed.transactional_id if committed is not None else ""
    ordered = tuple(parts[p] for p in sorted(parts))
    why = "" if committed is not None else "which partitions it has is not recorded"
    return judged(FoundTransaction(producer, epoch, name, Verdict.COMPLETE, ordered, why), is_named=is_named)


def judged(found: FoundTransaction, *, is_named: bool) -> FoundTransaction:
    """Its verdict by its parts. `found.why`: why it is not complete, although no part says so."""
    states = {part.state for part in found.parts}
    some = any(part.present or part.state in (State.WHOLE, State.RECOVERED) for part in found.parts)
    if not some and State.NONE in states:
        return replace(found, verdict=Verdict.ABSENT, why="")
    if some and (State.PART in states or (State.NONE in states and is_named)):
        return replace(found, verdict=Verdict.PARTIAL, why="")
    why = found.why
    if not why and State.OPEN in states:
        why = OPEN_WHY
    elif not why and State.UNKNOWN in states:
        why = UNKNOWN_WHY
    return replace(found, verdict=Verdict.NOT_DETERMINED, why=why) if why else found


def _of_earlier_version(
    producer: int,
    epochs: Collection[int],
    logs: Mapping[TopicPartition, _Log],
    committed: Sequence[TransactionCommitted],
    later: Sequence[TransactionCommitted],
) -> list[FoundTransaction]:
    """Transactions of a producer whose epoch stays: decided by number; those without one are listed for each partition.

    `later`: its transactions with version 2.
    """
    used = {p for p, log in logs.items() if any(s.producer_id == producer for s in log.seen)}
    named = {p for each in (*committed, *later) for p in partitions_of(each) if p.topic != OFFSETS_TOPIC}
    newest = {p: max((s.at_ms for s in _crossed(logs.get(p), producer)), default=0) for p in used | named}

    def is_old(at_ms: int) -> bool:
        return bool(committed and at_ms and all(at >= at_ms + CLOCKS_MS for at in newest.values()))

    found: list[FoundTransaction] = []
    for each in committed:
        if any(each.nths):
            one = _by_numbers(each, logs)
            old = one.verdict is Verdict.NOT_DETERMINED and is_old(each.at_ms)
            found.append(replace(one, verdict=Verdict.COMPLETE, why="") if old else one)
    numbered_parts = {(part.partition, part.first) for one in found for part in one.parts if part.known}
    name = committed[-1].transactional_id if committed else ""
    for log in (logs[p] for p in sorted(used)):
        for seen in log.seen:
            part = log.part(seen)
            mine = seen.producer_id == producer and seen.epoch in epochs
            if not mine or not part.present or (part.partition, part.first) in numbered_parts:
                continue
            why = "its client uses no transaction version 2, and the mirror did not read how its producer began"
            verdict = Verdict.NOT_DETERMINED
            if part.state is State.PART:
                verdict, why = Verdict.PARTIAL, ""
            elif part.state is State.WHOLE and is_old(seen.at_ms):
                verdict, why = Verdict.COMPLETE, ""
            found.append(FoundTransaction(producer, seen.epoch, name, verdict, (part,), why, own_epoch=False))
    return found


def _by_numbers(committed: TransactionCommitted, logs: Mapping[TopicPartition, _Log]) -> FoundTransaction:
    parts = []
    for partition, nth in zip(partitions_of(committed), committed.nths, strict=True):
        if partition.topic != OFFSETS_TOPIC:
            log = logs.get(partition)
            parts.append(_none(partition, committed) if log is None else log.numbered(committed, nth))
    producer, epoch, name = committed.producer_id, committed.epoch, committed.transactional_id
    ordered = tuple(sorted(parts, key=lambda part: part.partition))
    found = FoundTransaction(producer, epoch, name, Verdict.COMPLETE, ordered, own_epoch=False)
    return judged(found, is_named=True)


def _crossed(log: _Log | None, producer: int) -> list[_Seen]:
    """The producer's transactions of a partition whose markers lie below what was reached."""
    if log is None or log.log.reached is None:
        return []
    return [s for s in log.seen if s.producer_id == producer and 0 <= s.marker <= log.log.reached]


def _older(
    found: Sequence[FoundTransaction], logs: Mapping[TopicPartition, _Log], committed: Sequence[TransactionCommitted]
) -> tuple[TopicPartition, ...]:
    """Partitions that lack the first transaction that is recorded for them: they may lack ones that are not."""
    first: dict[TopicPartition, State] = {}
    parts = {(t.producer_id, t.epoch): {p.partition: p.state for p in t.parts} for t in found}
    for each in committed:
        partitions = [p for p in partitions_of(each) if p in logs and logs[p].log.dropped and not each.early]
        if each.version >= OWN_EPOCHS:
            mine = parts.get((each.producer_id, each.epoch - 1), {})
        elif any(each.nths):
            nths = dict(zip(partitions_of(each), each.nths, strict=True))
            mine = {p: logs[p].numbered(each, nths[p]).state for p in partitions}
        else:
            continue
        for partition in partitions:
            first.setdefault(partition, mine.get(partition, State.NONE))
    return tuple(sorted(p for p, state in first.items() if state in (State.NONE, State.UNKNOWN)))
