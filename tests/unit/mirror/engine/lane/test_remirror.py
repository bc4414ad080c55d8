"""Which mirror topics that are gone may be filled again from the source's start."""

from __future__ import annotations

import uuid

import pytest

from drlib.mirror.engine.lane.remirror import RemirrorRequests, may_fill_again
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.journal.entries import RemirrorRequested, TopicNames
from drlib.model import TopicPartition

FORMER, SOURCE, OLD_MIRROR, MIRROR = (uuid.UUID(int=n) for n in range(1, 5))
TOPIC = LaneTopic("t", SOURCE, "A.t", (0,))
COPIED = TopicNames(SOURCE, "t", "A.t", MIRROR)
BEFORE = TopicNames(FORMER, "t", "A.t", OLD_MIRROR)


@pytest.mark.parametrize(
    ("names", "requested", "by_file", "allowed"),
    [
        ([COPIED], {}, False, False),
        ([COPIED], {}, True, True),
        ([COPIED], {"A.t": MIRROR}, False, True),
        ([COPIED], {"A.t": OLD_MIRROR}, False, False),  # of a mirror topic before this one
        ([COPIED], {"A.u": MIRROR}, False, False),
        ([BEFORE, COPIED], {"A.t": OLD_MIRROR}, False, False),
        ([BEFORE], {}, False, True),  # nothing of the present source topic was copied
        ([BEFORE, TopicNames(SOURCE, "t", "B.t", MIRROR)], {}, False, True),
    ],
)
def test_may_fill_again_needs_the_file_a_request_for_this_mirror_or_nothing_copied(
    names: list[TopicNames], requested: dict[str, uuid.UUID], by_file: bool, allowed: bool
) -> None:
    topic = LaneTopic(TOPIC.source, TOPIC.topic_id, TOPIC.target, TOPIC.partitions, by_file)
    assert may_fill_again(topic, names, requested) is allowed


@pytest.mark.parametrize(("names", "allowed"), [([COPIED], False), ([BEFORE], True)])
def test_may_fill_again_a_topic_of_both_directions_only_where_nothing_was_copied(
    names: list[TopicNames], allowed: bool
) -> None:
    topic = LaneTopic(TOPIC.source, TOPIC.topic_id, TOPIC.target, TOPIC.partitions, remirror=True, shared=True)
    assert may_fill_again(topic, names, {"A.t": MIRROR}) is allowed


def test_remirror_requests_newest_counts_for_each_mirror() -> None:
    requests = RemirrorRequests(TopicPartition("journal", 0))
    requests.take([RemirrorRequested("A.t", OLD_MIRROR, 1), COPIED, RemirrorRequested("A.u", MIRROR, 2)], 3)
    requests.take([RemirrorRequested("A.t", MIRROR, 4)], 5)
    assert requests.void == {"A.t": MIRROR, "A.u": MIRROR}
