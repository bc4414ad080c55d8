"""Which producers the source has is kept on the target: of those that wrote before the mirror, and of what it copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from fix_engine import SOON_REPLACED, Engine, create_topic, wait_for

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.source_producers.find import KeptOfSource, read_kept
from drlib.mirror.source_producers.leaders import Known, ask_leaders
from drlib.model import TopicPartition

Keyed = dict[tuple[int, int], tuple[TopicPartition, str]]


def test_producers_from_before_the_mirror_and_of_copied_records_are_known_without_the_source(engine: Engine) -> None:
    topic, partition = engine.topics, TopicPartition(engine.topics, 0)
    create_topic(engine.left, topic, 1)
    with written(engine.left, topic), written(engine.left, topic, **{"transactional.id": f"app-{topic}"}):
        before = keyed(of_leaders(engine.left, partition))
        assert len(before) == 2
        # None of these records is copied: only the leader can name who wrote them.
        engine.extra |= {"consumer.auto.offset.reset": "latest"} | SOON_REPLACED
        worker = engine.start()
        wait_for("the leader has named them", lambda: has_journal(engine) and keyed(kept(engine)) == before, 60)
        found = kept_of(engine)
        assert (found.topics, found.lanes, found.left_out) == ({topic}, (), 0)
        named = {each.name for each in found.known if each.state.transactional}
        assert named == {f"app-{topic}"}

        with written(engine.left, topic):
            after = keyed(of_leaders(engine.left, partition))
            (new,) = after.keys() - before.keys()
            wait_for("the writer of a copied record is kept", lambda: new in keyed(kept(engine)), 20)
            assert kept_of(engine).asked_ms == found.asked_ms, "its leader was not asked for it"
            assert kept_of(engine).copied_ms > found.copied_ms
            worker.kill()
            worker.wait(10)
            engine.start()
            wait_for("the next worker asked", lambda: kept_of(engine).asked_ms > found.asked_ms, 60)
            assert keyed(kept(engine)) == after


@contextmanager
def written(bootstrap: str, topic: str, **settings: str) -> Iterator[None]:
    """A producer that has written a record, and lives on."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, **settings})
    if settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    if settings:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0
    yield


def keyed(found: tuple[Known, ...]) -> Keyed:
    """By ID and epoch, without what is known of sequences and times."""
    return {(each.state.producer_id, each.state.epoch): (each.partition, each.name) for each in found}


def kept(engine: Engine) -> tuple[Known, ...]:
    return kept_of(engine).known


def kept_of(engine: Engine) -> KeptOfSource:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)

    async def read() -> KeptOfSource:
        async with wire_client(ClusterSettings(engine.target, (engine.right,)), client_id="test") as client:
            return await read_kept(client, flow.policy.journal_topic(engine.source))

    return blocking(read())


def has_journal(engine: Engine) -> bool:
    try:
        return bool(kept_of(engine).copied_ms)
    except BrokerError:  # the worker has not created it, or it has no leader yet
        return False


def of_leaders(bootstrap: str, partition: TopicPartition) -> tuple[Known, ...]:
    async def ask() -> tuple[Known, ...]:
        async with wire_client(ClusterSettings("CLUSTER", (bootstrap,)), client_id="test") as client:
            return tuple((await ask_leaders(client, await client.metadata([partition.topic]), [partition]))[0])

    return blocking(ask())
