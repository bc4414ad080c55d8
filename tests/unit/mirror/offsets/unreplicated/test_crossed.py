"""How many records crossed after the applications had moved, by the map and the ends of the target's logs at that moment."""

from __future__ import annotations

import uuid

from two_logs import built

from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.unreplicated.crossed import Crossed, TopicCrossed, crossed_late
from drlib.model import TopicPartition

ID = uuid.UUID(int=1)
ORDERS = TopicPartition("orders", 0)


def maps() -> Maps:
    """Six records of the source; where the target's log was at 4, three more were written there, then the last two came."""
    made = Maps()
    made.names[ID] = TopicNames(ID, "orders", "orders", uuid.UUID(int=2))
    made.by_partition[SourcePartition(ID, 0)] = built([(0, 0), (1, 1), (2, 2), (3, 3), (4, 7), (5, 8)], 6)
    return made


def test_records_behind_the_end_at_the_move_crossed_late() -> None:
    found = crossed_late(maps(), {"orders": (4,)}, {ORDERS: 3}, {})
    assert found == Crossed((TopicCrossed("orders", 2, 3),), {})
    assert (found.records, found.left) == (2, 3)


def test_groups_are_named_with_what_they_had_read_of_it_on_the_source() -> None:
    at = {group: {ORDERS: CommittedOffset(offset)} for group, offset in {"none": 4, "one": 5, "all": 6}.items()}
    found = crossed_late(
        maps(), {"orders": (4,)}, {}, {**at, "elsewhere": {TopicPartition("other", 0): CommittedOffset(9)}}
    )
    assert found.read_there == {"all": 2, "one": 1}


def test_topics_of_which_nothing_is_late_are_left_out() -> None:
    assert crossed_late(maps(), {"orders": (9,), "never-copied": (0, 0)}, {}, {}) == Crossed((), {})


def test_what_was_read_on_the_source_is_a_bound_where_positions_are_synchronized_back() -> None:
    at = {"all": {ORDERS: CommittedOffset(6)}}
    assert not crossed_late(maps(), {"orders": (4,)}, {}, at).read_there_at_most
    found = crossed_late(maps(), {"orders": (4,)}, {}, at, synchronized=True)
    assert (found.read_there, found.read_there_at_most) == ({"all": 2}, True)
