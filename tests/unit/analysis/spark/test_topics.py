"""A pinned range of a topic, as a value."""

from __future__ import annotations

from drlib.analysis.spark.topics import TopicRange


def test_up_to_ends_each_partition_no_later_and_those_without_an_end_at_their_start() -> None:
    whole = TopicRange("orders", {0: 2, 1: 5, 2: 0}, {0: 10, 1: 9, 2: 4}, {0: 2, 1: 5, 2: 0}, undecided={0: 9, 1: 8})
    cut = whole.up_to({0: 7, 1: 20})
    assert (cut.end, cut.start, cut.topic) == ({0: 7, 1: 9, 2: 0}, whole.start, "orders")
    assert (cut.offsets, cut.undecided) == (9, {1: 8})
    assert whole.up_to({0: 1}).end == {0: 2, 1: 5, 2: 0}
