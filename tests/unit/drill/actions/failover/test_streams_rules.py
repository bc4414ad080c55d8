"""Whether the state of a Kafka Streams application matches its input positions: a table of what the target knows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from drlib.drill.actions.failover.streams_rules import KnownInput, Match, applications, judge, judge_drained
from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent
from drlib.mirror.transactions.rules import PartitionLog, decide
from drlib.model import TopicPartition

APP = "sums"
INPUT, CHANGES, OUTPUT = "orders", f"{APP}-total-changelog", "totals"
TOPICS = (INPUT, CHANGES, OUTPUT, f"{APP}-total-repartition")
CHANGELOG = TopicPartition(CHANGES, 0)
POSITION = TopicPartition(INPUT, 0)


def committed(epoch: int) -> TransactionCommitted:
    """The transaction whose records have `epoch`."""
    partitions = ((CHANGES, (0,)), (OUTPUT, (0,)), ("__consumer_offsets", (7,)))
    return TransactionCommitted((0, epoch + 1), f"{APP}-1-2", 4, epoch + 1, 2, 1000 + epoch, partitions)


def log(partition: str, transactions: int, reached: int | None = None) -> PartitionLog:
    """A partition with a record and a marker of each of the first transactions."""
    events = []
    for epoch in range(transactions):
        events.append(TransactionEvent(4, epoch, 2 * epoch, 2 * epoch + 1, 1))
        events.append(TransactionEvent(4, epoch + 1, 2 * epoch + 1, 2 * epoch + 2, 0, 1000 + epoch))
    return PartitionLog(TopicPartition(partition, 0), 2 * transactions if reached is None else reached, tuple(events))


def at(offset: int = 50, epoch: int | None = 2, mirrored_to: int | None = 60) -> dict[TopicPartition, KnownInput]:
    return {POSITION: KnownInput(offset, None if epoch is None else (4, epoch), mirrored_to)}


WHOLE = log(CHANGES, 3), log(OUTPUT, 3)
GONE = {TopicPartition(INPUT, 1): KnownInput(5, (9, 0), 60)}


@pytest.mark.parametrize(
    ("logs", "known", "recorded", "match", "says"),
    [
        (WHOLE, at(), 3, Match.MATCHES, "3 transactions of it are complete"),
        ((log(CHANGES, 3), log(OUTPUT, 2)), at(), 3, Match.DIFFERS, "1 of its transactions are there in part"),
        (WHOLE, at(epoch=1), 3, Match.DIFFERS, "its state has 1 transactions, with 2 records, that are newer"),
        (WHOLE, at(epoch=3), 4, Match.DIFFERS, "behind 1 transactions of which nothing is on the target"),
        (WHOLE, at(offset=60), 3, Match.MATCHES, "3 transactions of it are complete"),
        (WHOLE, at() | GONE, 3, Match.NOT_DETERMINED, "the transactions of its positions are no longer recorded"),
        (WHOLE, at(offset=65), 3, Match.DIFFERS, "offsets of its input that were not mirrored: orders-0 by 5"),
        (WHOLE, at(epoch=None), 3, Match.NOT_DETERMINED, "which transaction committed its positions in orders-0"),
        (WHOLE, at(mirrored_to=None), 3, Match.NOT_DETERMINED, "up to where orders-0 was mirrored is not known"),
        (WHOLE, {}, 3, Match.NOT_DETERMINED, "none of its positions is known"),
        (WHOLE, at(), 0, Match.NOT_DETERMINED, "which partitions it has is not recorded"),
        ((), at(), 0, Match.NOT_DETERMINED, "no longer recorded"),
    ],
)
def test_state_and_positions(
    logs: tuple[PartitionLog, ...],
    known: Mapping[TopicPartition, KnownInput],
    recorded: int,
    match: Match,
    says: str,
) -> None:
    names = [committed(epoch) for epoch in range(recorded)]
    state = judge(APP, TOPICS, known, decide(logs, names), names, keeps_names=True)
    assert (state.match, says in state.why) == (match, True), state


def test_changelog_of_another_name_is_no_state() -> None:
    names = [committed(epoch) for epoch in range(3)]
    state = judge(APP, TOPICS, at(), decide(WHOLE, names), names, keeps_names=False)
    assert state.match is Match.DIFFERS
    assert state.why == "its changelog topics have other names on the target, so that it begins with an empty state"


def test_producer_without_a_known_position_is_not_determined() -> None:
    """Another instance of the application has committed since, and none of its positions is known."""
    names = [committed(epoch) for epoch in range(3)]
    other = names[-1]._replace(producer_id=9, at_ms=2000, epoch=1, partitions=((CHANGES, (1,)),))
    second = PartitionLog(
        TopicPartition(CHANGES, 1), 2, (TransactionEvent(9, 0, 0, 1, 1), TransactionEvent(9, 1, 1, 2, 0, 2000))
    )
    state = judge(APP, TOPICS, at(), decide([*WHOLE, second], [*names, other]), [*names, other], keeps_names=True)
    assert state.match is Match.NOT_DETERMINED
    assert "1 of its producers have committed no position" in state.why
    before = [other._replace(at_ms=500), *names]
    assert judge(APP, TOPICS, at(), decide([*WHOLE, second], before), before, keeps_names=True).match is Match.MATCHES


def test_other_applications_transactions_say_nothing() -> None:
    names = [committed(epoch) for epoch in range(3)]
    foreign = TransactionCommitted((0, 9), "billing", 8, 1, 2, 5000, ((INPUT, (0,)), ("audit", (0,))))
    half = PartitionLog(
        TopicPartition(INPUT, 0), 60, (TransactionEvent(8, 0, 0, 1, 1), TransactionEvent(8, 1, 1, 2, 0))
    )
    decision = decide([*WHOLE, half, PartitionLog(TopicPartition("audit", 0), 0)], [*names, foreign])
    assert judge(APP, TOPICS, at(), decision, [*names, foreign], keeps_names=True).match is Match.MATCHES


@pytest.mark.parametrize(
    ("topics", "unmirrored", "match", "says"),
    [
        (TOPICS, (), Match.MATCHES, "complete"),
        (
            TOPICS,
            ("sums-names-changelog", "other"),
            Match.DIFFERS,
            "sums-names-changelog is not mirrored, so that it begi",
        ),
        (
            TOPICS,
            ("sums-key-repartition",),
            Match.NOT_DETERMINED,
            "sums-key-repartition is not mirrored, and records may",
        ),
        (TOPICS, ("sums-daily-total-changelog",), Match.MATCHES, "complete"),  # of `sums-daily`
        (TOPICS, None, Match.MATCHES, "complete"),
        ((INPUT, OUTPUT, TOPICS[3]), None, Match.NOT_DETERMINED, "none of its changelog topics is mirrored"),
        ((INPUT, OUTPUT, TOPICS[3]), ("other",), Match.MATCHES, "complete"),  # it has no state
    ],
)
def test_topics_that_are_not_mirrored_are_no_state(
    topics: tuple[str, ...], unmirrored: tuple[str, ...] | None, match: Match, says: str
) -> None:
    names = [committed(epoch) for epoch in range(3)]
    others = {APP, "sums-daily"}
    decision = decide(WHOLE, names)
    state = judge(APP, topics, at(), decision, names, keeps_names=True, others=others, unmirrored=unmirrored)
    assert (state.match, says in state.why) == (match, True), state


def test_transactions_of_an_application_whose_name_begins_alike_are_its_own() -> None:
    names = [committed(epoch) for epoch in range(3)]
    daily, half = "sums-daily-total-changelog", TransactionEvent(8, 0, 0, 1, 1)
    foreign = TransactionCommitted((0, 9), "sums-daily-1-2", 8, 1, 2, 5000, ((daily, (0,)), ("audit", (0,))))
    partly = PartitionLog(TopicPartition(daily, 0), 60, (half, TransactionEvent(8, 1, 1, 2, 0)))
    decision = decide([*WHOLE, partly, PartitionLog(TopicPartition("audit", 0), 0)], [*names, foreign])
    topics, both = (*TOPICS, daily), {APP, "sums-daily"}
    assert applications(both, topics) == [APP, "sums-daily"]
    assert applications(both, (daily,)) == ["sums-daily"]
    state = judge(APP, topics, at(), decision, [*names, foreign], keeps_names=True, others=both)
    assert state.match is Match.MATCHES, state
    other = judge("sums-daily", topics, at(), decision, [*names, foreign], keeps_names=True, others=both)
    assert "1 of its transactions are there in part" in other.why


def test_applications_are_groups_with_internal_topics() -> None:
    assert applications({APP, "billing", "su"}, TOPICS) == [APP]


@pytest.mark.parametrize(
    ("members", "missing", "keeps", "match", "says"),
    [
        (0, {}, True, Match.MATCHES, "it was stopped, and all of its 2 topics have crossed"),
        (0, {TopicPartition("elsewhere", 0): 9}, True, Match.MATCHES, "all of its 2 topics have crossed"),
        (0, {CHANGELOG: 0, POSITION: 3}, True, Match.NOT_DETERMINED, "has crossed: 3 offsets of orders-0"),
        (1, {}, True, Match.NOT_DETERMINED, "it still runs on the source"),
        (None, {}, True, Match.NOT_DETERMINED, "whether it still runs on the source is not known"),
        (0, {}, False, Match.DIFFERS, "begins with an empty state"),
    ],
)
def test_state_after_a_planned_move(
    members: int | None, missing: Mapping[TopicPartition, int], keeps: bool, match: Match, says: str
) -> None:
    found = judge_drained(APP, (INPUT, CHANGES), members, missing, keeps_names=keeps)
    assert (found.application, found.match) == (APP, match)
    assert says in found.why
