"""Which offsets of a batch of records are counted."""

from __future__ import annotations

from drlib.analysis.spark.shares import parts_of
from drlib.kafka.admin.descriptions import Range
from drlib.model import TopicPartition

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 3)


def test_of_shared_topics_the_stretches_that_were_found_and_of_others_all() -> None:
    spans = {ORDERS: Range(10, 90), OTHER: Range(5, 7)}
    found = {ORDERS: (Range(10, 20), Range(40, 90))}
    assert parts_of(spans, ["orders"], found) == [("orders", 0, 10, 20), ("orders", 0, 40, 90), ("other", 3, 5, 7)]


def test_a_shared_topic_without_a_stretch_has_no_part() -> None:
    assert parts_of({ORDERS: Range(10, 90)}, ["orders"], {}) == []
