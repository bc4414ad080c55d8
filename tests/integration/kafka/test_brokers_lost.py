"""Clients of librdkafka to which a broker named no broker: those that then stay without any are replaced, and work goes on.

Whether one begins with bootstrap.servers again is a matter of chance (librdkafka issue 5301). Here none does: their
`metadata.recovery.strategy` is none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pytest
from fix_engine import create_topic, latest_offsets, produce, wait_for
from testbed_rebootstrap import Asked, rebootstrap_proxy

from drlib.client.ordered_consumer import OrderedConsumer
from drlib.client.ordered_member import CommitOutcome
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import publish
from drlib.client.pointer_watch import PointerTopicWatcher
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka import broker_states
from drlib.kafka.admin import connect
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.mm2 import writer
from drlib.mirror.status.worker_status import EventLog
from drlib.model import Flow

NO_RECOVERY = {"metadata.recovery.strategy": "none", "topic.metadata.refresh.interval.ms": 500}


class Site(NamedTuple):
    """A broker: `direct` is its own address, `proxied` that of a proxy, which it also names for itself."""

    direct: str
    proxied: str
    asked: Asked

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings("LEFT", (self.proxied,))

    @contextmanager
    def without_brokers(self, topic: str) -> Iterator[None]:
        """Answers name `topic` and no broker, until one was given."""
        self.asked.given.clear()
        self.asked.brokerless = (topic,)
        try:
            yield
            wait_for("an answer without brokers", lambda: bool(self.asked.given))
        finally:
            self.asked.brokerless = ()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        Lab(tmp_path_factory.mktemp("site"), ("LEFT",)) as lab,
        rebootstrap_proxy(lab.clusters["LEFT"].brokers[0].spec.link_port) as asked,
    ):
        lab.proxy.target("LEFT-1", asked.port)
        yield Site(lab.clusters["LEFT"].bootstrap, lab.clusters["LEFT"].link_bootstrap, asked)


@pytest.fixture(autouse=True)
def no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of clients that are made from settings. Those without a broker for two seconds are lost."""
    plain = connect.librdkafka

    def made(cluster: ClusterSettings) -> dict[str, object]:
        return {**plain(cluster), **NO_RECOVERY}

    for module in ("kafka.admin.connect", "client.pointer_watch", "mirror.mm2.writer"):
        monkeypatch.setattr(f"drlib.{module}.librdkafka", made)
    monkeypatch.setattr(broker_states, "_EVERY_MS", 500)
    monkeypatch.setattr(broker_states, "_LOST_MS", 2000)


def new_topic(site: Site) -> str:
    topic = f"orders.{uuid.uuid4().hex[:6]}"
    create_topic(site.direct, topic, 1)
    return topic


def test_ordered_consumer_that_lost_all_brokers_joins_again_and_reads_each_record(site: Site) -> None:
    topic = new_topic(site)
    produce(site.direct, topic, 20, partitions=1)
    with OrderedConsumer(
        {"bootstrap.servers": site.proxied, **NO_RECOVERY}, topic, topic, settings={"session.timeout.ms": 6000}
    ) as consumer:
        seen: list[int] = []

        def read(count: int) -> bool:
            record = consumer.poll(0.5)
            if record is not None:
                seen.append(record.offset)
                assert consumer.commit() is CommitOutcome.ACKED
            return len(seen) >= count

        wait_for("the first records", lambda: read(20), 60)
        with site.without_brokers(topic):
            consumer.poll(0.1)
        produce(site.direct, topic, 20, partitions=1)
        wait_for("the others", lambda: read(40), 60)
    assert seen == list(range(40))


def test_pointer_watcher_that_lost_all_brokers_learns_of_a_move(site: Site) -> None:
    topic = f"pointer.{uuid.uuid4().hex[:6]}"
    direct = [ClusterSettings("LEFT", (site.direct,))]
    publish(direct, Pointer(1, "LEFT", site.direct), topic=topic)
    watcher = PointerTopicWatcher([site.settings], topic=topic)
    try:
        assert watcher.wait_newer(0, 30) is not None
        with site.without_brokers(topic):
            pass
        publish(direct, Pointer(2, "RIGHT", site.direct), topic=topic)
        assert watcher.wait_newer(1, 60) is not None
        wait_for("no doubt", lambda: watcher.doubt() == "", 30)
    finally:
        watcher.close()


def test_handle_that_lost_all_brokers_is_replaced_for_the_next_call(site: Site) -> None:
    topic = new_topic(site)
    with Cluster(site.settings, timeout_s=2.0) as cluster:
        assert topic in cluster.topics()
        with site.without_brokers(topic), suppress(DrlibError):
            cluster.topics()
        answered: list[bool] = []

        def asked(ask: Callable[[], object]) -> bool:
            try:
                ask()
            except DrlibError:
                answered.append(False)
            else:
                answered.append(True)
            return answered[-1]

        wait_for("the next call but one is answered", lambda: asked(cluster.topics) or len(answered) > 1, 30)
        assert answered[-1]
        assert asked(cluster.cluster_id)


def test_heartbeats_are_written_again_after_all_brokers_were_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MESSAGE_TIMEOUT_MS", 1500)
    monkeypatch.setattr(writer, "RENEW_S", 0.5)
    monkeypatch.setattr(writer, "_STRANDED_S", 1.0)
    settings = FlowSettings(flow=Flow("LEFT", "LEFT"))
    topic = settings.policy.heartbeats_topic
    create_topic(site.direct, topic, 1)
    heartbeats = writer.Mm2Writer(settings, site.settings, site.settings, EventLog())

    def written(count: int) -> bool:
        heartbeats.heartbeat()
        heartbeats.poll()
        return (latest_offsets(site.direct, topic, 1) or {}).get(0, 0) > count

    wait_for("the first", lambda: written(0), 30)
    with site.without_brokers(topic):
        wait_for("an answer without brokers", lambda: written(0) and bool(site.asked.given), 30)
    before = (latest_offsets(site.direct, topic, 1) or {}).get(0, 0)
    wait_for("more", lambda: written(before + 20), 60)
    heartbeats.close(1.0)
