"""The lag of a flow of MirrorMaker 2 counts records, not offsets; its topics are written by hand, the mirror has all records
that it would have copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, delete_records, produce, read_all, wait_for
from testbed_mm2 import copied_up_to, copy_as_they_are, leave_traces

from drlib.config.settings import load_mirror_settings
from drlib.mirror.monitor.flow_view import FlowView, overview
from drlib.mirror.monitor.survey import Surveyor
from drlib.mirror.offsets.mirror_maker.compared_maps import read_known_maps
from drlib.model import Flow, Translation, TranslationKind


def view_of(engine: Engine) -> FlowView:
    settings, flow = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    surveyor = Surveyor(settings, settings.flow(flow.source, flow.target))
    return overview(asyncio.run(surveyor.survey()), [], 0)


def bounds(engine: Engine) -> tuple[int | None, int | None]:
    view = view_of(engine)
    assert view.mirror_maker is not None
    assert not view.mirror_maker.unread
    return view.lag_at_least, view.lag


@pytest.fixture
def flow(engine: Engine) -> Engine:
    engine.extra |= {"emit.heartbeats.enabled": "false"}
    create_topic(engine.left, engine.topics, 1)
    create_topic(engine.right, f"{engine.source}.{engine.topics}", 1)
    return engine


@contextmanager
def transactions(engine: Engine) -> Iterator[Producer]:
    producer = Producer(
        {
            "bootstrap.servers": engine.left,
            "transactional.id": f"{engine.topics}-tx",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    yield producer


def written(engine: Engine, producer: Producer, count: int, end: str = "commit") -> None:
    """One transaction of `count` records, whose end is "commit", "abort" or "open"."""
    producer.begin_transaction()
    for number in range(count):
        producer.produce(engine.topics, key=f"k{number}", value=b"v", partition=0)
    assert producer.flush(30) == 0
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)


def copied(engine: Engine, records: int, *syncs: tuple[int, int]) -> None:
    """The mirror has this many records, and there are these offset syncs."""
    produce(engine.right, f"{engine.source}.{engine.topics}", records, partitions=1)
    leave_traces(engine, syncs, [])


def test_markers_at_the_end_are_not_missing(flow: Engine) -> None:
    with transactions(flow) as producer:
        written(flow, producer, 50)
    copied(flow, 50, (0, 0), (49, 49))
    assert bounds(flow) == (0, 0)


def test_markers_behind_the_newest_offset_sync_are_not_missing(flow: Engine) -> None:
    with transactions(flow) as producer:
        for _ in range(10):
            written(flow, producer, 5)
    copied(flow, 50, (0, 0))
    assert bounds(flow) == (0, 49)


def test_aborted_transactions_at_the_end_are_not_missing(flow: Engine) -> None:
    """MirrorMaker 2 copies them where it is not set to read committed records, and does not where it is."""
    with transactions(flow) as producer:
        written(flow, producer, 50)
        written(flow, producer, 30, "abort")
    copied(flow, 50, (0, 0), (49, 49))
    assert bounds(flow) == (0, 0)
    produce(flow.right, f"{flow.source}.{flow.topics}", 30, partitions=1, first=50)
    assert bounds(flow) == (0, 0)


def test_open_transaction_may_be_missing_and_is_not_known_to_be(flow: Engine) -> None:
    with transactions(flow) as producer:
        written(flow, producer, 50)
        written(flow, producer, 20, "open")
        copied(flow, 50, (0, 0), (49, 49))
        assert bounds(flow) == (0, 20)
        producer.commit_transaction(30)
        assert bounds(flow) == (20, 20)


def test_records_that_expired_behind_the_newest_offset_sync_are_not_missing(flow: Engine) -> None:
    with transactions(flow) as producer:
        written(flow, producer, 50)
    copied(flow, 50, (0, 0))
    delete_records(flow.left, flow.topics, 45)
    assert bounds(flow) == (0, 5)
    delete_records(flow.left, flow.topics, 51)
    assert bounds(flow) == (0, 0)


def test_records_that_are_not_on_the_mirror_are_missing(flow: Engine) -> None:
    with transactions(flow) as producer:
        written(flow, producer, 50)
        written(flow, producer, 50)
    copied(flow, 30, (0, 0), (9, 9))
    assert bounds(flow) == (70, 90)  # of those behind the sync, 20 offsets of the mirror can be copies


def test_far_behind_is_at_least_what_was_read_and_at_most_all_offsets(flow: Engine) -> None:
    produce(flow.left, flow.topics, 12_000, partitions=1)
    copied(flow, 30, (0, 0), (9, 9))
    least, most = bounds(flow)
    assert least is not None
    assert 3000 < least < 11_970
    assert most == 11_990


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_position_behind_the_markers_at_the_end_is_exact_on_the_mirror(flow: Engine, end: str) -> None:
    """Consumers commit the position behind a marker once they have passed it."""
    with transactions(flow) as producer:
        written(flow, producer, 50)
        copy_as_they_are(flow)
        written(flow, producer, 3, end)
    leave_traces(flow, [(0, 0)], [])
    copied_up_to(flow, 20)
    settings = load_mirror_settings(flow.properties)
    maps = read_known_maps(settings, Flow(flow.source, flow.target))
    offsets = maps.source(flow.topics, 0)
    assert offsets is not None
    exact, behind = TranslationKind.EXACT, TranslationKind.BEHIND
    assert offsets.forward(50) == offsets.forward(51) == Translation(50, exact)
    assert offsets.forward(55) == (Translation(50, exact) if end == "abort" else Translation(50, behind, 4))
    assert offsets.absent(0, 55) == (() if end == "abort" else ((51, 55),))


@pytest.mark.long  # the cleaner takes its time
def test_records_that_the_cleaner_removed_are_not_missing(flow: Engine) -> None:
    topic = f"{flow.topics}-c"
    flow.topics = topic
    config = {"segment_ms": "500", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "500"}
    create_topic(flow.left, topic, 1, cleanup_policy="compact", segment_bytes="1048576", **config)
    create_topic(flow.right, f"{flow.source}.{topic}", 1)
    produce(flow.left, topic, 300, partitions=1, keys=7, batch=1000)

    def cleaned() -> bool:
        produce(flow.left, topic, 1, partitions=1, keys=7)
        return len(read_all(flow.left, topic, 1)[0]) < 100

    wait_for("the log is cleaned", cleaned, 90)
    left = len(read_all(flow.left, topic, 1)[0])
    copied(flow, 1 + left, (0, 0))  # the first record was removed after it was copied
    least, most = bounds(flow)
    assert least == 0
    assert most is not None
    assert 0 < most <= left
