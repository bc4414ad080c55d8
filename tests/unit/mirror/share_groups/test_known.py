"""What is known of share groups: combined from answers of a cluster, or from checkpoints."""

from __future__ import annotations

import uuid

import pytest

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.errors import Unreachable
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.protocol.error_codes import LEADER_NOT_AVAILABLE
from drlib.kafka.share_groups.messages import DescribedGroup, Refusal, ShareOffset, StateBatch, StateKey
from drlib.kafka.share_groups.state import ShareState, StateLog
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER, SHARE_HEADER
from drlib.mirror.offsets.translation.translate_groups import last_known
from drlib.mirror.share_groups import known
from drlib.mirror.share_groups.known import KnownShare, KnownShares
from drlib.model import TopicPartition

AT, TOPIC_ID = TopicPartition("orders", 0), uuid.UUID(int=7)
POLICY = DefaultReplicationPolicy()


def described(start: int | None, lag: int | None) -> dict[str, DescribedGroup]:
    return {"g": DescribedGroup(Refusal(0, None), {"orders": TOPIC_ID}, {AT: ShareOffset(start, lag)}, {})}


def test_combined_prefers_the_state_to_the_start_offset() -> None:
    log = StateLog(3, [StateBatch(3, 4, 2), StateBatch(6, 7, 2)])
    positions, unset, unread = known.combined(described(3, 9), {StateKey("g", TOPIC_ID, 0): log}, {}, {}, {}, 50)
    assert (positions, unset, unread) == ({("g", AT): KnownShare(ShareState(5, ((6, 8),)), 50)}, (), {})


@pytest.mark.parametrize(("lag", "count"), [(9, 8), (None, None)])
def test_combined_without_the_state_knows_how_many_records_are_complete_by_the_lag(
    lag: int | None, count: int | None
) -> None:
    positions, _, _ = known.combined(described(3, lag), None, {AT: 20}, {}, {}, 50)
    assert positions["g", AT].state == ShareState(3, None, count)


def test_combined_partition_without_start_begins_at_the_log_start_where_the_group_says_earliest() -> None:
    positions, unset, _ = known.combined(described(None, None), {}, {}, {AT: 4}, {"g": "earliest"}, 50)
    assert (positions["g", AT].state, unset) == (ShareState(4), ())
    assert known.combined(described(None, None), {}, {}, {AT: 4}, {"g": "latest"}, 50) == ({}, (("g", AT),), {})
    assert known.without_start(described(None, None)) == ("g",)


def no_leader(code: int = LEADER_NOT_AVAILABLE) -> dict[str, DescribedGroup]:
    return {"g": DescribedGroup(Refusal(0, None), {"orders": TOPIC_ID}, {}, {AT: Refusal(code, "no leader")})}


def test_combined_partition_that_the_coordinator_refuses_has_its_state_where_that_may_be_read() -> None:
    log = StateLog(3, [StateBatch(3, 4, 2), StateBatch(6, 7, 2)])
    found = known.combined(no_leader(), {StateKey("g", TOPIC_ID, 0): log}, {}, {}, {"g": "earliest"}, 50)
    assert found == ({("g", AT): KnownShare(ShareState(5, ((6, 8),)), 50)}, (), {})


@pytest.mark.parametrize("logs", [None, {}, {StateKey("g", TOPIC_ID, 0): StateLog()}])
def test_combined_partition_of_which_nothing_is_known_is_unread_and_never_taken_for_new(
    logs: dict[StateKey, StateLog] | None,
) -> None:
    positions, unset, unread = known.combined(no_leader(), logs, {}, {AT: 4}, {"g": "earliest"}, 50)
    assert (positions, unset, list(unread)) == ({}, (), [("g", AT)])
    assert "what it has read of orders-0 is not known, as the broker answered LEADER_NOT_AVAILABLE" in str(
        unread["g", AT]
    )
    seen = KnownShares(positions, unset, unread)
    assert list(seen.incomplete()) == ["g"]
    assert seen.incomplete(lambda topic: topic != "orders") == {}


@pytest.mark.parametrize("state", [ShareState(3, ((5, 7), (8, 12))), ShareState(3, None, 6), ShareState(3, None)])
def test_header_of_a_checkpoint_keeps_the_state(state: ShareState) -> None:
    assert known.decoded(3, known.encoded(state)) == state


@pytest.mark.parametrize(
    "header", [b"", b"[]", b'{"complete":[[7,5]],"count":null}', b'{"complete":[[2,4]],"count":null}']
)
def test_header_that_cannot_be_right_leaves_unknown_what_is_complete(header: bytes) -> None:
    assert known.decoded(3, header) == ShareState(3, None)


def test_last_known_of_a_name_is_of_the_kind_of_its_newest_checkpoint() -> None:
    def record(offset: int, *headers: tuple[str, bytes]) -> Record:
        checkpoint = Checkpoint("g", TopicPartition("LEFT.orders", 0), 3, 4)
        return Record(TopicPartition("c", 0), offset, 1000, checkpoint.key(), checkpoint.value(), headers)

    of_group = record(0, (POSITION_HEADER, b"3"))
    state = known.encoded(ShareState(5, ((6, 8),)))
    of_share = record(1, (POSITION_HEADER, b"5"), (AS_OF_HEADER, b"99"), (SHARE_HEADER, state))
    assert known.last_known_shares([of_group, of_share], POLICY) == {
        ("g", AT): KnownShare(ShareState(5, ((6, 8),)), 99, checkpointed=True)
    }
    assert last_known([of_group, of_share], POLICY) == {}
    assert known.last_known_shares([of_share, of_group], POLICY) == {}
    assert set(last_known([of_share, of_group], POLICY)) == {("g", AT)}


def test_filled_in_takes_what_was_kept_of_groups_that_are_refused_and_of_no_other() -> None:
    here, kept = KnownShare(ShareState(9), 50), KnownShare(ShareState(3), 40, checkpointed=True)
    errors = {name: Unreachable(name, "no coordinator", "") for name in ("g", "h")}
    now = KnownShares({("other", AT): here}, refused=errors)
    found = known.filled_in(now, KnownShares({("g", AT): kept, ("other", AT): kept, ("gone", AT): kept}))
    assert found.positions == {("other", AT): here, ("g", AT): kept}
    assert found.refused == {"h": errors["h"]}


def test_filled_in_takes_what_was_kept_of_partitions_that_are_unread_and_of_no_other() -> None:
    other = TopicPartition("orders", 1)
    here, kept = KnownShare(ShareState(9), 50), KnownShare(ShareState(3), 40, checkpointed=True)
    why = Unreachable("g", "no leader", "")
    now = KnownShares({("g", other): here}, unread={("g", AT): why, ("h", AT): why})
    found = known.filled_in(now, KnownShares({("g", AT): kept, ("g", other): kept}))
    assert found.positions == {("g", other): here, ("g", AT): kept}
    assert found.unread == {("h", AT): why}
