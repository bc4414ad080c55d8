"""Which partitions begin by the start rule, when the journals of other lanes say what the flow has mirrored already."""

from __future__ import annotations

import uuid
from typing import Any, cast

import pytest

from drlib.config.start_rule import Start, StartRule
from drlib.errors import Unreachable
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.lane.start_claim import ClaimStart
from drlib.mirror.engine.lane.start_position import counts_at_start, new_topics, start_of_new
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import StartUnknown
from drlib.mirror.journal.entries import Entry, PartitionsAtStart, SourcePartition, TopicNames
from drlib.model import TopicPartition

ID, BEFORE = uuid.UUID(int=1), uuid.UUID(int=2)
NAMES = TopicNames(ID, "t", "A.t", uuid.UUID(int=9))


@pytest.mark.parametrize(
    ("others", "by_the_rule"),
    [
        ([], (1, 3)),
        ([PartitionsAtStart(ID, 4, False), NAMES], (1, 3)),  # another lane saw it first, a moment ago
        ([PartitionsAtStart(ID, 2, False), NAMES], (1,)),
        ([PartitionsAtStart(ID, 1, False), NAMES], ()),
        ([PartitionsAtStart(ID, 4, False), NAMES, PartitionsAtStart(ID, 1, True), NAMES], ()),
        ([NAMES], ()),  # begun at its log start
        (
            [PartitionsAtStart(BEFORE, 4, False), TopicNames(BEFORE, "t", "A.t", uuid.UUID(int=8))],
            (),
        ),  # re-created since
    ],
)
def test_partition_added_to_a_topic_that_another_lane_has_begins_at_its_log_start(
    others: list[Entry], by_the_rule: tuple[int, ...]
) -> None:
    topics = [LaneTopic("t", ID, "A.t", (1, 3)), LaneTopic("new", uuid.UUID(int=3), "A.new", (0,))]
    found = {topic.source: topic.partitions for topic in new_topics(topics, others)}
    assert found == {"new": (0,)} | ({"t": by_the_rule} if by_the_rule else {})


def test_relay_of_a_ring_begins_at_the_log_start() -> None:
    relay = LaneTopic("t", ID, "t", (0,), shared=True, hop=1)
    assert ClaimStart._never_mirrored(cast(ClaimStart, None), [relay], set(), set()) == []


def test_only_what_both_directions_copied_counts_where_records_are_explained() -> None:
    entries = [PartitionsAtStart(ID, 1, False), PartitionsAtStart(BEFORE, 3, True), PartitionsAtStart(BEFORE, 2, True)]
    assert counts_at_start(entries) == {ID: 1, BEFORE: 2}
    assert counts_at_start(entries, shared=True) == {BEFORE: 2}


async def test_topic_waits_while_it_is_not_known_whether_another_lane_has_it() -> None:
    class Silent:
        async def metadata(self, topics: Any) -> None:
            raise Unreachable("the target does not answer", "", "")

    topic = LaneTopic("t", ID, "A.t", (1, 3))
    silent = cast(ClusterClient, Silent())
    rule = StartRule(Start.LATEST, value="latest")
    begins = await start_of_new(silent, silent, TopicPartition("journal", 1), rule, [topic])
    assert begins.keys() == {SourcePartition(ID, 1), SourcePartition(ID, 3)}
    assert all(isinstance(why, StartUnknown) and "other lanes" in why.why for why in begins.values())
    assert await start_of_new(silent, silent, TopicPartition("journal", 1), StartRule(), [topic]) == {}
