"""Questions to a cluster that throttles the user who asks."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe.clusters import AskedCluster
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.security.cluster_settings import ClusterSettings


class Paused:
    """A connection on which the broker has announced so many seconds of pauses."""

    def __init__(self, paused_s: float) -> None:
        self.paused_s = paused_s


@pytest.mark.parametrize(("paused_s", "why"), [(0.0, "no answer within"), (0.01, "PARIS throttles this user")])
async def test_question_that_a_quota_leaves_no_time_for_names_the_quota(paused_s: float, why: str) -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    asked = AskedCluster(
        ClusterSettings("PARIS", ("127.0.0.1:1",)), client, ClusterMetadata("c", 1, {}, {}), service=None
    )
    paused = Paused(paused_s)

    async def question() -> str:
        client._all.add(cast(Connection, paused))
        await asyncio.sleep(60)
        return "an answer"

    answer = await asked.ask(question(), 0.05)
    assert isinstance(answer, Unanswered)
    assert answer.why.startswith(why)


async def test_question_is_waited_for_as_long_as_a_quota_pauses_it() -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    asked = AskedCluster(ClusterSettings("PARIS", ("127.0.0.1:1",)), client, ClusterMetadata("c", 1, {}, {}))
    paused = Paused(3600.0)

    async def question() -> str:
        client._all.add(cast(Connection, paused))
        await asyncio.sleep(1.1)
        return "an answer"

    assert await asked.ask(question(), 1.0) == "an answer"
