"""Which version of each request is sent to which broker."""

from __future__ import annotations

import pytest

from drlib.kafka.net import api_versions as versions

KAFKA_2_4 = {
    0: (0, 8), 1: (0, 11), 2: (0, 5), 3: (0, 9), 8: (0, 8), 9: (0, 6), 10: (0, 3), 11: (0, 6), 12: (0, 4), 13: (0, 4),
    14: (0, 4), 15: (0, 5), 16: (0, 3), 17: (0, 1), 22: (0, 2), 24: (0, 1), 26: (0, 1), 29: (0, 1), 30: (0, 1),
    31: (0, 1), 32: (0, 2), 36: (0, 1), 47: (0, 0),
}  # fmt: skip
KAFKA_2_8 = {
    0: (0, 9), 1: (0, 12), 2: (0, 6), 3: (0, 11), 8: (0, 8), 9: (0, 7), 10: (0, 3), 11: (0, 7), 12: (0, 4), 13: (0, 4),
    14: (0, 5), 15: (0, 5), 16: (0, 4), 17: (0, 1), 22: (0, 4), 24: (0, 3), 26: (0, 3), 29: (0, 2), 30: (0, 2),
    31: (0, 2), 32: (0, 4), 36: (0, 2), 47: (0, 0), 48: (0, 1), 49: (0, 1), 60: (0, 0), 61: (0, 0),
}  # fmt: skip
KAFKA_3_1 = {
    **KAFKA_2_8, 1: (0, 13), 2: (0, 7), 3: (0, 12), 9: (0, 8), 10: (0, 4), 65: (0, 0), 66: (0, 0)
}  # fmt: skip
KAFKA_4_0 = {**KAFKA_3_1, 0: (0, 12), 1: (4, 17), 2: (1, 10), 9: (1, 9), 10: (0, 6), 32: (1, 4), 55: (0, 2)}
PEER = "127.0.0.1:9092"


def test_highest_common_version_is_chosen() -> None:
    of_4_0 = versions.highest(KAFKA_4_0)
    assert of_4_0 == {name: newest for name, newest in versions.NEWEST.items() if name in of_4_0}
    assert versions.NEWEST.keys() - of_4_0.keys() <= {*versions.OF_SHARE_GROUPS, *versions.OF_STREAMS_GROUPS}
    assert "DescribeShareGroupOffsets" not in of_4_0
    old = versions.highest(KAFKA_2_8)
    assert (old["Fetch"], old["ListOffsets"], old["Metadata"], old["OffsetFetch"]) == (12, 6, 11, 7)
    assert "ListTransactions" not in old
    assert old["FindCoordinator"] == 3
    assert "Fetch" not in versions.highest({1: (14, 17)})


@pytest.mark.parametrize("offered", [KAFKA_2_4, KAFKA_2_8, KAFKA_3_1, KAFKA_4_0], ids=["2.4", "2.8", "3.1", "4.0"])
def test_check_source_from_2_4_on_is_accepted(offered: versions.Offered) -> None:
    versions.check(PEER, offered)


def test_check_target_needs_3_1() -> None:
    versions.check(PEER, KAFKA_3_1, as_target=True)
    with pytest.raises(versions.UnsupportedRequest) as refused:
        versions.check(PEER, KAFKA_2_8, as_target=True)
    assert str(refused.value) == (
        f"broker {PEER} does not support Fetch v13, ListOffsets v7, Metadata v12, OffsetFetch v8, FindCoordinator v4, "
        "DescribeTransactions v0, ListTransactions v0: it is older than Kafka 3.1, or is not a Kafka broker. "
        "Use a cluster of Kafka 3.1 or newer as the target of a mirror."
    )


def test_check_source_that_is_too_old_is_named_with_what_it_lacks() -> None:
    with pytest.raises(versions.UnsupportedRequest) as refused:
        versions.check(PEER, {**KAFKA_2_4, 3: (0, 8), 1: (0, 10)})  # as Kafka 2.3
    assert str(refused.value) == (
        f"broker {PEER} does not support Fetch v11, Metadata v9: it is older than Kafka 2.4, or is not a Kafka broker. "
        "Use a cluster of Kafka 2.4 or newer as the source of a mirror."
    )
    with pytest.raises(versions.UnsupportedRequest, match="Fetch v11"):
        versions.check(PEER, {**KAFKA_2_8, 1: (14, 20)})


def test_versions_of_the_fence_never_bump_the_epoch() -> None:
    assert versions.NEWEST["EndTxn"] < 5
    assert versions.NEWEST["AddPartitionsToTxn"] == 3


def test_request_that_a_broker_lacks_says_what_cannot_be_done_whatever_the_clusters_role() -> None:
    assert str(versions.unsupported(PEER, "DescribeProducers")) == (
        f"broker {PEER} does not support DescribeProducers v0: it is too old for that request, or is not a Kafka broker. "
        f"Upgrade the cluster of {PEER}; what asks for DescribeProducers cannot be done there until then."
    )
