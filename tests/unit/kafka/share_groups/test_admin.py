"""Share groups are listed once every broker has loaded its groups."""

from __future__ import annotations

import itertools
import uuid
from types import SimpleNamespace

import pytest

from drlib.kafka.net import group_requests
from drlib.kafka.net.group_requests import GroupListing
from drlib.kafka.protocol.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    LEADER_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    BrokerError,
)
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.messages import DescribedGroup, Refusal, StateKey
from drlib.model import TopicPartition


class Client:
    """One broker, which knows share groups."""

    brokers = (1,)
    timeout_s = 5.0

    async def connection(self, node: int, purpose: str) -> SimpleNamespace:
        return SimpleNamespace(versions={"DescribeShareGroupOffsets": 0})


async def test_listing_of_a_broker_that_loads_its_groups_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = itertools.count()

    async def loading(_: object) -> list[GroupListing]:
        if next(asked) < 2:
            raise BrokerError(COORDINATOR_LOAD_IN_PROGRESS, "listing groups")
        return [GroupListing("g", "share", "Stable")]

    monkeypatch.setattr(group_requests, "list_groups", loading)
    monkeypatch.setattr(admin, "_supports", lambda *_: True)
    assert (await admin.list_by(Client())).share_groups == ("g",)  # type: ignore[arg-type]
    monkeypatch.setattr(Client, "timeout_s", 0.0)
    asked = itertools.count()
    with pytest.raises(BrokerError):
        await admin.list_by(Client())  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "waited"), [(LEADER_NOT_AVAILABLE, True), (TOPIC_AUTHORIZATION_FAILED, False)])
def test_refused_partition_is_waited_for_where_the_error_may_pass_and_the_caller_lacks_it(
    code: int, waited: bool
) -> None:
    topic, at = uuid.uuid4(), TopicPartition("orders", 1)
    found = DescribedGroup(Refusal(0, None), {"orders": topic}, {}, {at: Refusal(code, None)})
    key = StateKey("g", topic, 1)
    assert admin.awaited("g", found, lambda each: each == key) == ({key: Refusal(code, None)} if waited else {})
    assert admin.awaited("g", found, lambda _: False) == {}
