"""What the start of a claim reports of what it found in the mirrors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.parked_partitions import ParkedPartitions
from drlib.mirror.engine.lane.start_claim import ClaimStart
from drlib.mirror.journal.entries import ClaimId, Foreign, SourcePartition, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

BEFORE, NOW, MIRROR, CLAIM = UUID(int=1), UUID(int=2), UUID(int=3), ClaimId(7, 0)
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize("shared", [False, True])
def test_clients_of_the_target_are_foreign_writers_only_where_one_direction_copies_the_topic(shared: bool) -> None:
    """They were, where the source's topic had been created again: the journal has their records under the former one."""
    events = EventLog()
    maps = Maps(names={each: TopicNames(each, "orders", "orders", MIRROR) for each in (BEFORE, NOW)})
    maps.findings = [Foreign(SourcePartition(BEFORE, 0), 111, 30, 0)]
    start = ClaimStart(
        lane="lane.0", claim=CLAIM, maps=maps, logs=cast(Any, None), excluded={}, takeover=cast(Any, SimpleNamespace()),
        events=events, learned={}, unavailable={}, filled_again=(), begin=cast(Any, None),
    )  # fmt: skip
    key = SourcePartition(NOW, 0)
    start.streams = [PartitionStream(key, ORDERS, ORDERS, CLAIM, PartitionMap(), 0, 0, shared=shared)]
    start.report(ParkedPartitions(events, "lane.0"))
    assert events.is_open("ForeignWriter", "orders-0") != shared
