"""A flow of the real MirrorMaker 2, stopped in mid-traffic, is continued by our engine: no record missing or duplicated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from fix_engine import Engine, Record, create_topic, produce, read_all, traffic, wait_for
from testbed_mm2 import (
    PARTITIONS,
    connect_keys,
    consume_some,
    copies,
    ends,
    journal_entries,
    taken_map,
    wait_for_copies,
)

from bench.mirror_maker import MirrorMaker2
from drlib.config.settings import load_mirror_settings
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.group_requests import list_groups
from drlib.mirror.journal.entries import Compared
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.mirror.status import worker_status as status
from drlib.model import Flow, TranslationKind

pytestmark = [pytest.mark.mm2, pytest.mark.timeout(300)]


@pytest.fixture
def mm2(engine: Engine) -> Iterator[MirrorMaker2]:
    engine.extra |= {
        **connect_keys(engine.source, engine.target),
        "tasks.max": "2",
        f"{engine.target}.offset.flush.interval.ms": "2000",
    }
    maker = MirrorMaker2(engine.root / "mm2", engine.properties)
    yield maker
    maker.kill()


def has_members(engine: Engine, group: str) -> bool:
    """Uses our own request, because librdkafka does not list Connect's groups."""

    async def ask() -> bool:
        client = ClusterClient((engine.right,))
        try:
            metadata = await client.connect()
            found = [g for n in metadata.brokers for g in await list_groups(await client.connection(n))]
        finally:
            await client.close()
        return any(g.group == group and g.state == "Stable" for g in found)

    return asyncio.run(ask())


def assert_carried_on(engine: Engine, before: dict[int, list[Record]]) -> None:
    """The records copied before are unchanged, and every other source record follows them, once and in order."""
    after, source = copies(engine), read_all(engine.left, engine.topics, PARTITIONS)
    for partition in range(PARTITIONS):
        there = set(before[partition])
        missing = [record for record in source[partition] if record not in there]
        assert after[partition][: len(there)] == before[partition][: len(there)]
        assert after[partition][len(before[partition]) :] == missing, f"partition {partition}\n{engine.log()}"


def take_over(engine: Engine) -> None:
    worker = engine.start()
    engine.wait_caught_up(engine.topics, PARTITIONS)
    assert engine.stop(worker) == 0, engine.log()


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL", "SIGKILL before it ever committed", "SIGKILL twice"])
def test_takeover_mm2_stopped_in_mid_traffic_continues_exactly_once(
    engine: Engine, mm2: MirrorMaker2, end: str
) -> None:
    create_topic(engine.left, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 3000, partitions=PARTITIONS)
    if end == "SIGKILL before it ever committed":
        engine.extra[f"{engine.target}.offset.flush.interval.ms"] = "60000"
    assert engine.properties.exists()
    mm2.start()
    with traffic(engine.left, engine.topics, partitions=PARTITIONS, first=10_000):
        wait_for_copies(engine, 9000)
        if end == "SIGTERM":
            assert mm2.stop(), mm2.log_tail()
        else:
            mm2.kill()
        if end == "SIGKILL twice":
            already = ends(engine)
            mm2.start()
            wait_for_copies(engine, already + 2000)
            mm2.kill()
        before = copies(engine)
        worker = engine.start()
        wait_for_copies(engine, 1000 + sum(map(len, before.values())))
    engine.wait_caught_up(engine.topics, PARTITIONS)
    assert engine.stop(worker) == 0, engine.log()
    assert_carried_on(engine, before)
    events = [e for e in status.read(engine.status_path(0)).events if e.name == "TakenOver"]
    assert {name for e in events for name in e.names if not name.startswith("heartbeats")} == {
        f"{engine.topics}-{n}" for n in range(PARTITIONS)
    }
    if not end.endswith("twice"):
        engine.assert_same(engine.topics, PARTITIONS)
    take_over(engine)  # once more: the journal knows now, MM2's offsets are not asked again
    assert_carried_on(engine, before)


def test_takeover_positions_in_the_copied_part_are_bounded_and_become_exact(engine: Engine, mm2: MirrorMaker2) -> None:
    """MirrorMaker 2 is killed and started again before it is stopped, so that it has copied some records twice."""
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 30_000, partitions=PARTITIONS)
    early = consume_some(engine.left, engine.topics, "early", 6000)
    engine.extra[f"{engine.target}.offset.flush.interval.ms"] = "60000"
    assert engine.properties.exists()
    mm2.start()
    wait_for_copies(engine, 6000)
    mm2.kill()
    already = ends(engine)
    mm2.start()
    wait_for_copies(engine, 30_000 + already)
    assert mm2.stop(), mm2.log_tail()
    produce(engine.left, engine.topics, 3000, partitions=PARTITIONS, first=50_000)
    late = consume_some(engine.left, engine.topics, "late", 33_000)

    def compared() -> bool:
        flows = status.read(engine.status_path(0)).flows
        return not any(p.to_compare for flow in flows for p in flow.partitions if p.topic == engine.topics)

    worker = engine.start()
    engine.wait_caught_up(engine.topics, PARTITIONS)
    wait_for("both logs are compared", compared)
    assert engine.stop(worker) == 0, engine.log()
    settings = load_mirror_settings(engine.properties)
    found = translate_groups(settings, Flow(engine.source, engine.target), ["early", "late"])
    source, target = read_all(engine.left, engine.topics, PARTITIONS), copies(engine)
    assert {(t.group, t.source.partition) for t in found} == {
        *(("early", p) for p in early),
        *(("late", p) for p in late),
    }
    journal = [entry for entry in journal_entries(engine) if not isinstance(entry, Compared)]
    for item in found:
        there, partition, position = item.translation, item.source.partition, item.source_offset
        assert there.kind is TranslationKind.EXACT
        if item.group == "late":
            continue
        assert there.offset is not None
        assert target[partition][there.offset :][: len(source[partition]) - position] == source[partition][position:]
        before = taken_map(engine, journal, partition).forward(position)
        assert before.kind is TranslationKind.BOUNDED
        assert before.offset is not None
        assert 0 < there.offset - before.offset <= before.records


def test_takeover_running_mirror_maker_refuses_start(engine: Engine, mm2: MirrorMaker2) -> None:
    create_topic(engine.left, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 300, partitions=PARTITIONS)
    assert engine.properties.exists()
    mm2.start()
    wait_for_copies(engine, 300)
    worker = engine.start()
    assert worker.wait(60) == 10, engine.log()
    assert f"Connect group {engine.source}-mm2" in engine.log()
    assert ends(engine) == 300


def test_takeover_mm2_with_heartbeats_only_does_not_refuse_start(
    engine: Engine, mm2: MirrorMaker2, fresh_topic: Callable[[], str]
) -> None:
    create_topic(engine.left, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 300, partitions=PARTITIONS)
    back = f"{engine.target}->{engine.source}"
    path = engine.properties
    text = path.read_text().replace(f"{engine.source}->{engine.target}.enabled = true", f"{back}.enabled = true")
    maker = MirrorMaker2(engine.root / "other", path.with_name("backward.properties"))
    maker.properties.write_text(text)
    maker.start()
    try:
        wait_for("its Connect group of our flow has members", lambda: has_members(engine, f"{engine.source}-mm2"))
        take_over(engine)
        engine.assert_same(engine.topics, PARTITIONS)
    finally:
        maker.kill()
