"""Which transactions the target has whole: tables of what was recorded, and random transactions with random cuts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent
from drlib.mirror.transactions.rules import CLOCKS_MS, Decision, PartitionLog, State, Verdict, decide
from drlib.model import TopicPartition

ONE, TWO, THREE = (TopicPartition("orders", n) for n in range(3))
OFFSETS = TopicPartition("__consumer_offsets", 7)


def data(first: int, count: int = 2, *, producer: int = 4, epoch: int = 0, nth: int = 0) -> TransactionEvent:
    return TransactionEvent(producer, epoch, first, first + count, count, 0, nth)


def marker(at: int, *, producer: int = 4, epoch: int = 1, at_ms: int = 1000, nth: int = 0) -> TransactionEvent:
    return TransactionEvent(producer, epoch, at, at + 1, 0, at_ms, nth)


def numbered(number: int, nths: dict[TopicPartition, int], *, epoch: int = 0) -> TransactionCommitted:
    """Of a client without transaction version 2."""
    topics = tuple((p.topic, (p.partition,)) for p in nths)
    return TransactionCommitted((0, number), "app", 4, epoch, 0, 900, topics, number, tuple(nths.values()))


def committed(*partitions: TopicPartition, epoch: int = 1, version: int = 2, at_ms: int = 900) -> TransactionCommitted:
    topics = tuple((p.topic, (p.partition,)) for p in partitions)
    return TransactionCommitted((0, 1), "app", 4, epoch, version, at_ms, topics)


def only(decision: Decision) -> tuple[Verdict, dict[TopicPartition, State]]:
    (found,) = decision.transactions
    return found.verdict, {part.partition: part.state for part in found.parts}


def test_transaction_that_all_its_partitions_have_is_complete() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2))), PartitionLog(TWO, 3, (data(0), marker(2)))]
    assert only(decide(logs, [committed(ONE, TWO, OFFSETS)])) == (
        Verdict.COMPLETE,
        {ONE: State.WHOLE, TWO: State.WHOLE},
    )


def test_transaction_is_partial_where_a_partition_of_it_was_not_read() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2))), PartitionLog(TWO, 0)]
    assert only(decide(logs, [committed(ONE, TWO)])) == (Verdict.PARTIAL, {ONE: State.WHOLE, TWO: State.NONE})


def test_transaction_is_partial_where_a_partition_was_never_mirrored() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2)))]
    assert only(decide(logs, [committed(ONE, TWO)])) == (Verdict.PARTIAL, {ONE: State.WHOLE, TWO: State.NONE})


def test_transaction_is_partial_where_its_records_were_read_and_did_not_arrive() -> None:
    """What was read proves itself: neither the coordinator's record nor the marker is needed."""
    logs = [PartitionLog(ONE, 1, (data(0, 2),))]
    (found,) = decide(logs, []).transactions
    assert (found.verdict, found.parts[0].present, found.parts[0].known) == (Verdict.PARTIAL, 1, 2)


def test_transaction_of_unknown_partitions_is_not_determined() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2)))]
    (found,) = decide(logs, []).transactions
    assert (found.verdict, found.why) == (Verdict.NOT_DETERMINED, "which partitions it has is not recorded")


def test_transaction_whose_marker_was_not_read_is_not_determined() -> None:
    logs = [PartitionLog(ONE, 2, (data(0),)), PartitionLog(TWO, 3, (data(0), marker(2)))]
    assert only(decide(logs, [committed(ONE, TWO)])) == (
        Verdict.NOT_DETERMINED,
        {ONE: State.OPEN, TWO: State.WHOLE},
    )


def test_partition_without_a_map_is_not_known() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2))), PartitionLog(TWO, None)]
    assert only(decide(logs, [committed(ONE, TWO)])) == (
        Verdict.NOT_DETERMINED,
        {ONE: State.WHOLE, TWO: State.UNKNOWN},
    )


def test_transaction_of_which_nothing_arrived_is_not_listed() -> None:
    logs = [PartitionLog(ONE, 0, (data(0), marker(2))), PartitionLog(TWO, 0)]
    assert decide(logs, [committed(ONE, TWO)]).transactions == ()


def test_what_the_producer_wrote_later_shows_that_the_earlier_one_was_read() -> None:
    """The ring of the second partition has lost the transaction, and has a later one of the producer."""
    logs = [
        PartitionLog(ONE, 3, (data(0), marker(2))),
        PartitionLog(TWO, 9, (data(6, epoch=1), marker(8, epoch=2)), dropped=True),
    ]
    first, second = decide(logs, [committed(ONE, TWO), committed(TWO, epoch=2)]).transactions
    assert (first.verdict, second.verdict) == (Verdict.COMPLETE, Verdict.COMPLETE)


def test_transaction_older_than_what_a_partition_recorded_is_not_determined() -> None:
    logs = [
        PartitionLog(ONE, 3, (data(0), marker(2))),
        PartitionLog(TWO, 9, (data(6, producer=5), marker(8, producer=5, at_ms=900 - CLOCKS_MS)), dropped=True),
    ]
    found = {each.producer_id: each.verdict for each in decide(logs, [committed(ONE, TWO)]).transactions}
    assert found[4] is Verdict.NOT_DETERMINED
    later = [logs[0], PartitionLog(TWO, 9, logs[1].events)]
    assert {e.producer_id: e.verdict for e in decide(later, [committed(ONE, TWO)]).transactions}[4] is Verdict.PARTIAL


def test_marker_whose_records_are_no_longer_recorded_is_the_transactions() -> None:
    logs = [PartitionLog(ONE, 3, (data(0), marker(2))), PartitionLog(TWO, 9, (marker(8),), dropped=True)]
    assert only(decide(logs, [committed(ONE, TWO)])) == (
        Verdict.COMPLETE,
        {ONE: State.WHOLE, TWO: State.WHOLE},
    )


def test_later_records_that_did_not_arrive_either_say_nothing_about_earlier_ones() -> None:
    whole = PartitionLog(ONE, 3, (data(0), marker(2)))
    later = PartitionLog(TWO, 3, (data(6, epoch=1), marker(8, epoch=2)), dropped=True)
    only_marker = PartitionLog(TWO, 3, (marker(8),), dropped=True)
    for behind in (later, only_marker):
        (found,) = decide([whole, behind], [committed(ONE, TWO)]).transactions
        assert [part.state for part in found.parts] == [State.WHOLE, State.UNKNOWN]


def test_partition_behind_the_oldest_recorded_transaction_may_lack_older_ones() -> None:
    logs = [
        PartitionLog(ONE, 9, (data(6), marker(8)), dropped=True),
        PartitionLog(TWO, 3, (data(0, producer=5, epoch=8), marker(2, producer=5, epoch=9)), dropped=True),
    ]
    assert decide(logs, [committed(ONE, TWO, at_ms=10**6)]).older == (TWO,)


def test_same_epoch_is_decided_by_the_numbers_of_its_transactions() -> None:
    """librdkafka, and Java before 4.0. The second partition has the first one and, as its second, a part of the third."""
    one = (data(0, nth=1), marker(2, epoch=0, nth=1), data(3, nth=2), marker(5, epoch=0, nth=2), data(6, nth=3))
    two = (data(0, nth=1), marker(2, epoch=0, nth=1), data(3, nth=2))
    logs = [PartitionLog(ONE, 9, (*one, marker(8, epoch=0, nth=3))), PartitionLog(TWO, 4, two)]
    names = [numbered(1, {ONE: 1, TWO: 1, OFFSETS: 1}), numbered(2, {ONE: 2}), numbered(3, {ONE: 3, TWO: 2})]
    found = decide(logs, names).transactions
    assert [each.verdict for each in found] == [Verdict.COMPLETE, Verdict.COMPLETE, Verdict.PARTIAL]
    assert [(part.state, part.present, part.known) for part in found[2].parts] == [
        (State.WHOLE, 2, 2),
        (State.PART, 1, 2),
    ]
    assert not any(each.own_epoch for each in found)


def test_same_epoch_is_partial_where_a_partition_has_not_read_that_number() -> None:
    logs = [
        PartitionLog(ONE, 3, (data(0, nth=1), marker(2, epoch=0, nth=1))),
        PartitionLog(TWO, 3, (data(0, nth=1), marker(2, epoch=0, nth=1))),
    ]
    names = [numbered(1, {TWO: 1}), numbered(2, {ONE: 1, TWO: 2})]
    found = decide(logs, names).transactions
    assert [each.verdict for each in found] == [Verdict.COMPLETE, Verdict.PARTIAL]
    assert [part.state for part in found[1].parts] == [State.WHOLE, State.NONE]


def test_same_epoch_of_unknown_number_in_one_partition_is_not_determined() -> None:
    logs = [
        PartitionLog(ONE, 3, (data(0, nth=1), marker(2, epoch=0, nth=1))),
        PartitionLog(TWO, 3, (data(0), marker(2, epoch=0))),
    ]
    (first, second) = decide(logs, [numbered(1, {ONE: 1, TWO: 1})]).transactions
    assert (first.verdict, [part.state for part in first.parts]) == (
        Verdict.NOT_DETERMINED,
        [State.WHOLE, State.UNKNOWN],
    )
    assert (second.verdict, second.parts[0].partition) == (Verdict.NOT_DETERMINED, TWO)


def test_same_epoch_of_a_number_that_is_no_longer_recorded_is_read_where_a_later_one_is() -> None:
    logs = [
        PartitionLog(ONE, 3, (data(0, nth=1), marker(2, epoch=0, nth=1))),
        PartitionLog(TWO, 9, (data(6, nth=2), marker(8, epoch=0, nth=2)), dropped=True),
    ]
    first, second = decide(logs, [numbered(1, {ONE: 1, TWO: 1}), numbered(2, {TWO: 2})]).transactions
    assert (first.verdict, second.verdict) == (Verdict.COMPLETE, Verdict.COMPLETE)


def test_same_epoch_whose_number_was_lost_within_a_transaction_is_not_taken_for_that_number() -> None:
    logs = [PartitionLog(ONE, 6, (data(0, nth=1), data(3), marker(5, epoch=0)))]
    found = decide(logs, [numbered(1, {ONE: 1}), numbered(2, {ONE: 2})]).transactions
    assert [(each.verdict, each.present) for each in found] == [(Verdict.NOT_DETERMINED, 2)] * 2


def test_producer_that_went_on_with_version_2_is_decided_by_both() -> None:
    first, second = numbered(1, {ONE: 1}, epoch=5), numbered(2, {TWO: 1}, epoch=5)
    later = committed(ONE, THREE, epoch=8)
    one = (data(0, epoch=5, nth=1), marker(2, epoch=5, nth=1), data(3, epoch=7), marker(5, epoch=8))
    for logs in ([PartitionLog(ONE, 6, one), PartitionLog(TWO, 0)], [PartitionLog(TWO, 0), PartitionLog(ONE, 6, one)]):
        found = decide(logs, [first, second, later]).transactions
        assert [(each.epoch, each.verdict) for each in found] == [(5, Verdict.COMPLETE), (7, Verdict.PARTIAL)]


def test_same_epoch_in_several_transactions_without_numbers_is_not_determined() -> None:
    """Nothing says which record of one partition belongs to which of another."""
    logs = [
        PartitionLog(ONE, 6, (data(0), marker(2, epoch=0), data(3), marker(5, epoch=0, at_ms=1100))),
        PartitionLog(TWO, 3, (data(0), marker(2, epoch=0))),
    ]
    names = [committed(ONE, TWO, epoch=0, version=0), committed(ONE, TWO, epoch=0, version=0, at_ms=1050)]
    found = decide(logs, names).transactions
    assert [each.verdict for each in found] == [Verdict.NOT_DETERMINED] * 3


def test_same_epoch_is_complete_once_the_producer_committed_long_after_it_everywhere() -> None:
    late = 1000 + CLOCKS_MS
    logs = [
        PartitionLog(p, 6, (data(0), marker(2, epoch=0), data(3), marker(5, epoch=0, at_ms=late))) for p in (ONE, TWO)
    ]
    earlier, later = committed(ONE, TWO, epoch=0, version=0), committed(THREE, epoch=8)
    found = decide(logs, [earlier]).transactions
    assert [each.verdict for each in found] == [Verdict.COMPLETE, Verdict.NOT_DETERMINED] * 2
    assert decide(logs, [earlier, later._replace(producer_id=9)]).transactions == found, "that is another producer"
    found = decide(logs, [earlier, later]).transactions  # it has written to another partition since
    assert [each.verdict for each in found] == [Verdict.NOT_DETERMINED] * 4


def test_same_epoch_is_complete_where_a_partition_begins_with_a_later_marker_of_the_producer() -> None:
    late = 1000 + CLOCKS_MS
    one = (data(0), marker(2, epoch=0), data(3), marker(5, epoch=0, at_ms=late))
    logs = [PartitionLog(ONE, 6, one), PartitionLog(TWO, 1, (marker(0, epoch=0, at_ms=late),))]
    found = decide(logs, [committed(ONE, TWO, epoch=0, version=0)]).transactions
    assert [each.verdict for each in found] == [Verdict.COMPLETE, Verdict.NOT_DETERMINED]


def test_same_epoch_of_which_no_commit_is_recorded_is_listed_for_each_partition() -> None:
    logs = [PartitionLog(p, 3, (data(0), marker(2, epoch=0))) for p in (ONE, TWO)]
    found = decide(logs, []).transactions
    assert [[part.partition for part in each.parts] for each in found] == [[ONE], [TWO]]


def test_same_epoch_of_which_no_marker_was_read_is_decided_for_each_partition() -> None:
    """Without a marker nothing says whether the producer's next transaction has the same epoch."""
    logs = [PartitionLog(ONE, 3, (data(0, 2, epoch=0),)), PartitionLog(TWO, 1, (data(0, 2, epoch=0),))]
    found = decide(logs, []).transactions
    assert [each.verdict for each in found] == [Verdict.NOT_DETERMINED, Verdict.PARTIAL]
    assert [[part.partition for part in each.parts] for each in found] == [[ONE], [TWO]]


def test_records_that_were_read_twice_count_once() -> None:
    events = (data(0, 2), data(0, 4), marker(4), marker(4))
    (found,) = decide([PartitionLog(ONE, 5, events)], [committed(ONE)]).transactions
    assert (found.verdict, found.parts[0].known) == (Verdict.COMPLETE, 4)


def test_early_transaction_is_never_in_part_for_what_lies_before_the_mirror() -> None:
    there = PartitionLog(ONE, 3, (data(0), marker(2)))
    later = PartitionLog(TWO, 9, (data(7, epoch=4), marker(8, epoch=5)))
    early = committed(ONE, TWO)._replace(early=True)
    # Of the second partition nothing was read: it may have begun behind the transaction, or be behind.
    for logs in ([there], [there, PartitionLog(TWO, 0)], [there, later]):
        first = decide(logs, [early]).transactions[0]
        assert first.verdict is Verdict.NOT_DETERMINED, logs
        assert [part.state for part in first.parts] == [State.WHOLE, State.UNKNOWN], logs
    assert only(decide([there, PartitionLog(TWO, 3, (data(0), marker(2)))], [early]))[0] is Verdict.COMPLETE
    assert only(decide([there, PartitionLog(TWO, 0, (data(0), marker(2)))], [early]))[0] is Verdict.PARTIAL
    assert decide([PartitionLog(TWO, 0)], [early]).transactions == ()


@dataclass
class _Log:
    """A source partition: every offset with the transaction of its record, or the marker of one."""

    items: list[tuple[tuple[int, int], bool]] = field(default_factory=list)

    def events(self, begin: int, end: int, aborted: set[tuple[int, int]], *, own: bool) -> list[TransactionEvent]:
        """`own`: has each transaction an epoch of its own?"""
        found: list[TransactionEvent] = []
        ended: dict[int, int] = {}
        unknown = {producer for (producer, _), _ in self.items[:begin]}  # how many of its transactions came before
        for offset, ((producer, epoch), is_marker) in enumerate(self.items[:end]):
            if (producer, epoch) in aborted or offset < begin:
                continue
            if not own and producer in unknown:
                found.append(TransactionEvent(producer, 0, offset, offset + 1, not is_marker, 1000 * is_marker))
            elif not own:
                nth = ended.get(producer, 0) + 1
                found.append(TransactionEvent(producer, 0, offset, offset + 1, not is_marker, 1000 * is_marker, nth))
                ended[producer] = nth - (not is_marker)
            elif is_marker:
                found.append(TransactionEvent(producer, epoch + 1, offset, offset + 1, 0, 1000 + offset))
            else:
                found.append(TransactionEvent(producer, epoch, offset, offset + 1, 1))
        return found


@settings(max_examples=150)
@given(st.data())
def test_random_transactions_with_random_cuts_are_decided_as_they_are(draw: st.DataObject) -> None:
    """Every partial one is found, no complete one is accused, and nothing is called complete that is not."""
    own = draw.draw(st.booleans(), "transaction version 2")
    number = draw.draw(st.integers(1, 3), "partitions")
    partitions = [TopicPartition("t", n) for n in range(number)]
    logs = {p: _Log() for p in partitions}
    records: dict[tuple[int, int], dict[TopicPartition, int]] = {}
    aborted: set[tuple[int, int]] = set()
    names: list[TransactionCommitted] = []
    serials: list[tuple[int, int]] = []
    counts: dict[tuple[int, TopicPartition], int] = {}
    epochs = dict.fromkeys(range(draw.draw(st.integers(1, 3), "producers")), 0)
    running: dict[int, dict[TopicPartition, int]] = {}
    begins = dict.fromkeys(partitions, 0)
    followed = draw.draw(st.integers(0, 20), "steps before the mirror")
    early: set[tuple[int, int]] = set()
    for step in range(draw.draw(st.integers(1, 40), "steps")):
        if step == followed:
            begins = {p: draw.draw(st.integers(0, len(log.items)), "begin") for p, log in logs.items()}
            early = {*serials, *((producer, epochs[producer]) for producer, mine in running.items() if mine)}
        producer = draw.draw(st.sampled_from(sorted(epochs)), "producer")
        mine = running.setdefault(producer, {})
        key = (producer, epochs[producer])
        if not mine or draw.draw(st.integers(0, 2), "more") > 0:
            partition = draw.draw(st.sampled_from(partitions), "partition")
            logs[partition].items.append((key, False))
            mine[partition] = mine.get(partition, 0) + 1
            continue
        if draw.draw(st.integers(0, 3), "abort") == 0:
            aborted.add(key)
        else:
            records[key] = mine
            topics = tuple((p.topic, (p.partition,)) for p in sorted(mine))
            counts |= {(producer, p): counts.get((producer, p), 0) + 1 for p in mine}
            name = TransactionCommitted((0, len(names)), "x", producer, key[1] + 1, 2, 1000, topics)
            if not own:
                nths = tuple(counts[producer, p] for p in sorted(mine))
                name = name._replace(epoch=0, version=0, number=1 + sum(k[0] == producer for k in serials), nths=nths)
            names.append(name)
            serials.append(key)
        for partition in draw.draw(st.permutations(sorted(mine)), "markers"):
            logs[partition].items.append((key, True))
        epochs[producer] += 1
        running[producer] = {}
    unfinished = {(producer, epochs[producer]) for producer, mine in running.items() if mine}
    found_logs, reached = [], {}
    kept_all = draw.draw(st.booleans(), "everything was kept")
    for partition, log in logs.items():
        # A reader of committed records gets nothing from the first record of a transaction on that has not ended.
        stable = next((n for n, (key, _) in enumerate(log.items) if key in unfinished), len(log.items))
        read = max(begins[partition], stable - draw.draw(st.integers(0, 6), "not read"))
        reached[partition] = max(begins[partition], read - draw.draw(st.integers(0, 3), "not there"))
        events = log.events(begins[partition], read, aborted, own=own)
        gone = 0 if kept_all else min(len(events), draw.draw(st.integers(0, 6), "dropped"))
        found_logs.append(PartitionLog(partition, reached[partition], tuple(events[gone:]), dropped=gone > 0))
    first = 0 if kept_all else draw.draw(st.integers(0, len(names)), "named from")
    names = [name._replace(early=key in early) for key, name in zip(serials, names, strict=True)]
    decision = decide(found_logs, names[first:])
    verdicts = {logs[p.partition].items[p.first][0]: t for t in decision.transactions for p in t.parts if p.known}
    if own:
        verdicts = {(each.producer_id, each.epoch): each for each in decision.transactions}
    named = set(serials[first:])
    for key, mine in records.items():
        mirrored = {
            p: [
                offset
                for offset, (each, is_marker) in enumerate(logs[p].items)
                if each == key and not is_marker and offset >= begins[p]
            ]
            for p in mine
        }
        crossed = sum(offset < reached[p] for p, offsets in mirrored.items() for offset in offsets)
        whole, found = crossed == sum(map(len, mirrored.values())), verdicts.get(key)
        verdict = found.verdict if found is not None else None
        assert verdict is not Verdict.COMPLETE or whole, (key, found)
        assert verdict is not Verdict.PARTIAL or not whole, (key, found)
        if not kept_all or not crossed:
            assert crossed or found is None
            continue
        assert found is not None
        assert key in named
        waiting = any(part.state is State.OPEN for part in found.parts)
        if any(begins.values()) or (key in early and any(p.state is State.UNKNOWN for p in found.parts)):
            continue
        if whole:
            assert verdict is Verdict.COMPLETE or waiting, (key, found)
        else:
            assert verdict is Verdict.PARTIAL or waiting, (key, found)
