"""Connections that fall silent without a reset, as behind a firewall that lost its table; and links that are only slow."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fix_engine import Engine, commit, create_topic, produce
from fix_lab import LabFactory
from testbed_lane import Running, running, until
from testbed_quotas import set_quotas

from drlib.kafka.net.connection import Connection
from drlib.kafka.net.silence import WHY
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.lab.link.link import Direction

DEADLINE_S = 20.0  # a request's own deadline is 30 s
PARTITIONS = 2
QUOTA_BYTES_S = 1000.0  # far less than the traffic


class Traffic:
    """20 records every 50 ms; `sent` of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._bootstrap, self._topic = bootstrap, topic
        self._over = threading.Event()
        self._writing = asyncio.create_task(asyncio.to_thread(self._write))

    def _write(self) -> None:
        for at in itertools.count(0, 20):
            if self._over.wait(0.05):
                return
            produce(self._bootstrap, self._topic, 20, partitions=PARTITIONS, first=at)
            self.sent = (at + 20) // PARTITIONS

    def ends(self, more: int = 0) -> dict[int, int]:
        return dict.fromkeys(range(PARTITIONS), self.sent + more)

    async def stop(self) -> None:
        self._over.set()
        await self._writing


@asynccontextmanager
async def mirrored_traffic(engine: Engine, lab: Lab) -> AsyncIterator[tuple[Running, Traffic]]:
    """The engine through the lab's links with traffic, which is compared at the end."""
    left, right = lab.clusters["LEFT"], lab.clusters["RIGHT"]
    engine.left, engine.right = left.link_bootstrap, right.link_bootstrap
    await asyncio.to_thread(create_topic, left.bootstrap, engine.topics, PARTITIONS)
    await asyncio.to_thread(create_topic, right.bootstrap, f"{engine.topics}.ready", 1)
    await asyncio.to_thread(commit, right.bootstrap, f"{engine.topics}.ready", f"{engine.topics}.ready", 0)
    traffic = Traffic(left.bootstrap, engine.topics)
    try:
        async with running(engine) as owner:
            await owner.mirrored(engine.topics, traffic.ends(50))
            yield owner, traffic
            await traffic.stop()
            await owner.mirrored(engine.topics, traffic.ends())
    finally:
        await traffic.stop()
        lab.proxy.clear()
    engine.left, engine.right = left.bootstrap, right.bootstrap
    engine.assert_same(engine.topics, PARTITIONS)


def three_brokers(engine: Engine, lab_factory: LabFactory) -> Lab:
    """Clusters of three brokers each, and a mirror whose topics have three replicas."""
    engine.extra |= {"replication.factor": "3", "drlib.journal.replication.factor": "3"}
    return lab_factory(brokers=3, extra={"min.insync.replicas": "2"})


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What connections were given up for: filled as it happens."""
    found: list[str] = []
    end = Connection.end

    def note(self: Connection, why: str) -> None:
        if why == WHY:
            found.append(f"{self.purpose} of {self.peer}")
        end(self, why)

    monkeypatch.setattr(Connection, "end", note)
    return found


@pytest.mark.parametrize(
    ("silent", "direction"),
    [
        (None, "both"),
        pytest.param("LEFT", "responses", marks=pytest.mark.long),
        pytest.param("LEFT", "requests", marks=pytest.mark.long),
        ("RIGHT", "responses"),
        pytest.param("RIGHT", "requests", marks=pytest.mark.long),
    ],
)
async def test_silent_connections_are_replaced_long_before_their_deadlines(
    engine: Engine, lab: Lab, given_up: list[str], silent: str | None, direction: Direction
) -> None:
    async with mirrored_traffic(engine, lab) as (owner, traffic):
        await asyncio.to_thread(lab.proxy.forget, silent, direction=direction)
        # an answer that was on its way brings records, too
        await until("a connection is given up", lambda: bool(given_up), DEADLINE_S / 2)
        await owner.mirrored(engine.topics, traffic.ends(10), DEADLINE_S / 2)


@pytest.mark.long
async def test_silent_connections_to_one_of_three_brokers_are_replaced(
    engine: Engine, lab_factory: LabFactory, given_up: list[str]
) -> None:
    lab = three_brokers(engine, lab_factory)
    async with mirrored_traffic(engine, lab) as (owner, traffic):
        for name in ("RIGHT-1", "RIGHT-2", "RIGHT-3", "LEFT-1"):
            await asyncio.to_thread(lab.proxy.forget, name)
            await owner.mirrored(engine.topics, traffic.ends(10), DEADLINE_S)
        assert given_up


@pytest.mark.long
async def test_replica_that_is_slow_to_follow_gives_up_no_connection(
    engine: Engine, lab_factory: LabFactory, given_up: list[str]
) -> None:
    """A produce request waits for its replicas, and the same broker answers others: its connection is not silent."""
    lab = three_brokers(engine, lab_factory)
    async with mirrored_traffic(engine, lab) as (owner, traffic):
        follower = lab.clusters["RIGHT"].brokers[2]
        follower.pause()
        try:
            await asyncio.sleep(7)  # how long the fault lasts
        finally:
            follower.resume()
        await owner.mirrored(engine.topics, traffic.ends(10))
        assert not given_up


@pytest.mark.long
async def test_link_that_becomes_slow_gives_up_no_connection(engine: Engine, lab: Lab, given_up: list[str]) -> None:
    engine.extra["drlib.session.timeout.ms"] = "20000"
    async with mirrored_traffic(engine, lab) as (owner, traffic):
        await asyncio.to_thread(lab.proxy.set, None, delay_ms=1000)
        await owner.mirrored(engine.topics, traffic.ends(1))
        await owner.mirrored(engine.topics, traffic.ends(1000), 60)
        assert not given_up


@pytest.mark.long
async def test_throttled_responses_give_up_no_connection(engine: Engine, lab: Lab, given_up: list[str]) -> None:
    """The brokers answer and then read nothing for seconds (quotas of both sides)."""
    async with mirrored_traffic(engine, lab) as (owner, traffic):
        throttled: list[float] = []
        sides = (
            (ClusterSettings(engine.source, (engine.left,)), {"consumer_byte_rate": QUOTA_BYTES_S}),
            (ClusterSettings(engine.target, (engine.right,)), {"producer_byte_rate": QUOTA_BYTES_S}),
        )
        for cluster, quotas in sides:
            await set_quotas(cluster, quotas, of="client-id", name=f"drlib-{cluster.alias}")
        clients = (owner.running_flow._source, owner.running_flow._target)

        def paused() -> bool:
            throttled.extend(
                left
                for client in clients
                for connection in client._all
                if (left := connection._throttled_until - asyncio.get_running_loop().time()) > 3.5
            )
            return len(throttled) > 20

        await until("responses announce pauses of several seconds", paused, 60)
        for cluster, quotas in sides:
            await set_quotas(cluster, quotas, of="client-id", name=f"drlib-{cluster.alias}", remove=True)
        await owner.mirrored(engine.topics, traffic.ends(), 60)
        assert not given_up
