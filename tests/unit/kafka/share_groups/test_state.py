"""What a share group has read of a partition, folded from the records of its state."""

from __future__ import annotations

from drlib.kafka.share_groups.messages import DeliveryState, StateBatch, StateRecord
from drlib.kafka.share_groups.state import ShareState, StateLog, above, missing, moved_up

ACKNOWLEDGED, AVAILABLE, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.AVAILABLE, DeliveryState.ARCHIVED


def test_state_log_as_measured_on_kafka_4_3() -> None:
    """The records of a group that accepted, rejected and released records of a log of 20."""
    log = StateLog()
    log.apply(StateRecord(True, None, ()))
    assert log.state is None
    first = [(0, 2, ACKNOWLEDGED), (3, 4, AVAILABLE), (5, 5, ARCHIVED), (6, 6, ACKNOWLEDGED), (7, 7, AVAILABLE)]
    rest = [(8, 11, ACKNOWLEDGED), (12, 19, AVAILABLE)]
    log.apply(StateRecord(False, 0, tuple(StateBatch(*each) for each in (*first, *rest))))
    assert log.state == ShareState(3, ((5, 7), (8, 12)))  # the start offset of the brokers is still 0
    log.apply(StateRecord(False, 3, (StateBatch(3, 4, AVAILABLE, 2), StateBatch(7, 7, ACKNOWLEDGED, 2))))
    assert log.state == ShareState(3, ((5, 12),))
    log.apply(StateRecord(False, None, (StateBatch(3, 4, ACKNOWLEDGED, 3),)))
    assert log.state == ShareState(12)
    log.apply(StateRecord(True, 2, ()))  # set back by an administrator
    assert log.state == ShareState(2)


def test_state_log_update_replaces_a_part_of_what_was_known() -> None:
    log = StateLog(0, [StateBatch(2, 9, ACKNOWLEDGED)])
    log.apply(StateRecord(False, None, (StateBatch(4, 5, AVAILABLE),)))
    assert log.state == ShareState(0, ((2, 4), (6, 10)))


def test_moved_up_joins_what_touches_and_begins_behind_what_is_complete() -> None:
    assert moved_up(3, [(8, 9), (3, 5), (9, 12), (5, 6), (0, 2)]) == ShareState(6, ((8, 12),))


def test_missing_counts_what_is_not_covered() -> None:
    assert missing(((5, 7), (8, 12)), ((6, 9),)) == 4
    assert missing((), ((6, 9),)) == 0
    assert above(((1, 4), (6, 8)), 3) == ((3, 4), (6, 8))


def test_share_state_completed_is_counted_or_unknown() -> None:
    assert ShareState(3, ((5, 7), (8, 12))).completed == 6
    assert ShareState(3, None, 4).completed == 4
    assert ShareState(3, None).completed is None
