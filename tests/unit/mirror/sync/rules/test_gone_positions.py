"""Which positions are gone on the source, and which it only does not show."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import AS_OF_HEADER, GONE_HEADER, SHARE_HEADER
from drlib.mirror.sync.rules.gone_positions import KEPT_MS, OLD_MS, GonePositions, Kept, Key, checkpointed
from drlib.model import TopicPartition

AT = TopicPartition("orders", 3)
KEY: Key = ("billing", AT)
NOW = 10 * OLD_MS


def ours(_: TopicPartition) -> bool:
    return True


def theirs(_: TopicPartition) -> bool:
    return False


def record(group: str, *headers: tuple[str, bytes]) -> Record:
    checkpoint = Checkpoint(group, TopicPartition("A.orders", 3), 5, 7, "m")
    return Record(TopicPartition("A.checkpoints.internal", 0), 0, 1000, checkpoint.key(), checkpoint.value(), headers)


def test_checkpointed_positions_are_those_without_a_mark_of_consumer_groups_that_the_flow_follows() -> None:
    log = [
        record("there", (AS_OF_HEADER, b"99")),
        record("gone"),
        record("gone", (GONE_HEADER, b"1")),
        record("back", (GONE_HEADER, b"1")),
        record("back"),
        record("shared", (SHARE_HEADER, b"{}")),
        record("excluded"),
    ]
    found = checkpointed(log, DefaultReplicationPolicy(aliases=("A",)), lambda group: group != "excluded")
    assert {group: kept.as_of_ms for (group, at), kept in found.items() if at == AT} == {"there": 99, "back": 1000}


@pytest.mark.parametrize(
    ("found", "answered", "refused", "topics", "gone"),
    [
        ((), {"billing"}, (), {"orders"}, True),
        ({KEY}, {"billing"}, (), {"orders"}, False),  # it is there
        ((), (), {"billing"}, {"orders"}, False),  # a right is missing
        ((), (), (), {"orders"}, False),  # not asked this time
        ((), {"billing"}, (), (), False),  # the topic does not exist, or may not be described
    ],
)
def test_deleted_position_is_gone_where_the_source_says_so(
    found: Iterable[Key], answered: Iterable[str], refused: Iterable[str], topics: Iterable[str], gone: bool
) -> None:
    positions, kept = GonePositions(), Kept(5, NOW)
    positions.deleted(KEY, kept, NOW)
    assert positions.doubtful(ours, NOW) == {KEY}
    answer = positions.gone(set(found), set(answered), set(refused), set(topics))
    assert answer == ({KEY: kept} if gone else {})


def test_position_that_is_there_again_before_the_source_has_answered_is_not_gone() -> None:
    positions = GonePositions()
    positions.deleted(KEY, Kept(5, NOW), NOW)
    positions.doubtful(ours, NOW)
    positions.there(KEY)
    assert positions.gone((), {"billing"}, (), {"orders"}) == {}
    positions.deleted(KEY, Kept(6, NOW), NOW)
    assert positions.gone((), {"billing"}, (), {"orders"}) == {}, "the question was about the one before"
    assert positions.outdates(KEY, NOW)
    assert not positions.outdates(KEY, NOW + 1)


@pytest.mark.parametrize(("age_ms", "gone"), [(OLD_MS, False), (OLD_MS + 1, True)])
def test_position_that_went_while_no_worker_ran_is_gone_once_it_is_old(age_ms: int, gone: bool) -> None:
    """A source that has lost its log of positions has none of them, and its groups are to be moved."""
    positions, kept = GonePositions(), Kept(5, NOW - age_ms)
    positions.add({KEY: kept}, ())
    assert positions.doubtful(ours, NOW) == ({KEY} if gone else set())
    others = {("other", AT)}
    assert positions.gone((), {"billing"}, (), {"orders"}) == {}, "the source has no position of any group"
    assert positions.gone(others, {"billing"}, (), {"orders"}) == ({KEY: kept} if gone else {})


def test_position_of_the_log_that_the_source_has_is_not_asked_for() -> None:
    positions = GonePositions()
    positions.add({KEY: Kept(5, 0)}, {KEY})
    assert not positions.doubtful(ours, NOW)
    positions.add({KEY: Kept(5, 0)}, ())
    positions.there(KEY)
    assert not positions.doubtful(ours, NOW)


def test_position_of_the_log_is_gone_at_once_where_its_deletion_is_read() -> None:
    positions, kept = GonePositions(), Kept(5, NOW)
    positions.add({KEY: kept}, ())
    for _ in range(2):  # a coordinator may write it twice
        positions.deleted(KEY, None, NOW)
    positions.doubtful(ours, NOW)
    assert positions.gone((), {"billing"}, (), {"orders"}) == {KEY: kept}


def test_question_that_the_source_leaves_open_is_not_asked_for_ever() -> None:
    positions = GonePositions()
    positions.add({("old", AT): Kept(5, 0)}, ())
    positions.deleted(KEY, Kept(5, NOW), NOW)
    assert len(positions.doubtful(ours, NOW)) == 2
    assert positions.gone((), {"old"}, {"billing"}, ()) == {}
    assert positions.doubtful(ours, NOW + KEPT_MS - 1) == {KEY}
    assert not positions.doubtful(ours, NOW + KEPT_MS)


def test_deletion_in_a_partition_of_another_worker_is_kept_for_a_while() -> None:
    positions = GonePositions()
    positions.deleted(KEY, Kept(5, NOW), NOW)
    assert not positions.doubtful(theirs, NOW)
    assert positions.doubtful(ours, NOW + KEPT_MS - 1) == {KEY}, "its lane has moved here"
    assert not positions.doubtful(theirs, NOW + KEPT_MS)
    assert not positions.doubtful(ours, NOW + KEPT_MS)
