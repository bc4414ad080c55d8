"""How many topics are created in one request."""

from __future__ import annotations

import pytest

from drlib.kafka.admin import cluster
from drlib.kafka.admin.descriptions import NewTopicSpec


@pytest.mark.parametrize(
    ("partitions", "portions"),
    [
        ([], []),
        ([3], [[3]]),
        ([2, 2], [[2, 2]]),
        ([2, 2, 1], [[2, 2], [1]]),
        ([9, 1, 9], [[9], [1], [9]]),  # a topic is never divided
    ],
)
def test_portions_have_at_most_the_partitions_of_one_request(
    partitions: list[int], portions: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "AT_ONCE", 4)
    topics = [NewTopicSpec(f"t{n}", count, -1, {}) for n, count in enumerate(partitions)]
    divided = list(cluster._portions(topics))
    assert [[topic.partitions for topic in some] for some in divided] == portions
    assert [topic for some in divided for topic in some] == topics
