"""Applications move to the other cluster and back where both directions copy their topic under one name."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside import beside
from fix_engine import Engine, create_topic, produce, wait_for
from fix_two_way import RIGHTS_FIRST, worker
from testbed_applications import Application, stage
from testbed_switchover import Moving

from drlib.client import pointer_file
from drlib.config.settings import load_mirror_settings
from drlib.drill.step.context import DrillContext
from drlib.lab.checker import scan
from drlib.lab.checker.history import ProducedStatus
from drlib.model import Flow

PARTITIONS = 3
Content = tuple[int | None, str, str, int, int]
"""What tells a record from any other."""


@pytest.fixture
def moving(both: Engine, tmp_path: Path) -> Iterator[Moving]:
    both.extra |= {"emit.heartbeats.enabled": "false"}
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, both.topics, PARTITIONS)
    run = tmp_path / "run"
    run.mkdir()
    with worker(both, PARTITIONS), stage(tmp_path) as on:
        on.point(1, both.source, both.left)
        settings = load_mirror_settings(both.properties)
        flow = Flow(both.source, both.target)
        place = DrillContext(
            clusters=settings.clusters, flow=flow, run_dir=run, properties=both.properties, pointer=on.pointer
        )
        yield Moving(both, on, place)


def count(application: Application, cluster: str, kind: str) -> int:
    history = application.history()
    return sum(row.cluster == cluster for row in (history.produced if kind == "produced" else history.consumed))


def log(bootstrap: str, topic: str) -> dict[tuple[int, int], Content]:
    """What each record is, by partition and offset."""
    found = scan.scan(bootstrap, topic)
    return {(r.partition, r.offset): (r.digest, r.id, r.key, r.n, r.timestamp_ms) for r in found}


def read(moving: Moving, application: Application) -> Counter[Content]:
    """How often the application read each record, on either cluster."""
    engine = moving.engine
    logs = {engine.source: log(engine.left, engine.topics), engine.target: log(engine.right, engine.topics)}
    return Counter(logs[row.cluster][row.partition, row.offset] for row in application.history().consumed)


def has_read_all(moving: Moving, application: Application) -> bool:
    """Has it read every record, which both logs hold once?"""
    left, right = (Counter(log(at, moving.engine.topics).values()) for at in (moving.engine.left, moving.engine.right))
    return left == right and max(left.values()) == 1 and read(moving, application).keys() == left.keys()


def test_applications_move_there_and_back_and_nothing_is_lost_or_read_twice(moving: Moving) -> None:
    home, away, topic = moving.engine.source, moving.engine.target, moving.engine.topics
    producer = moving.on.producer(topic, records_per_second=400.0)
    quick = moving.on.consumer(topic, f"{topic}.quick")
    slow = moving.on.consumer(topic, f"{topic}.slow", records_per_second=200.0, after_move_records_per_second=20_000.0)
    wait_for("traffic", lambda: count(producer, home, "produced") > 800)
    wait_for("both groups read", lambda: all(count(a, home, "consumed") > 100 for a in (quick, slow)))
    assert moving.act("reverse.verify", source=home, target=away)["workers"] == 1

    there = moving.there()  # in the middle of what one of them has to read
    assert (moving.active, there["rpo_records"], there["read_again_at_most"]) == (away, 0, 0)
    assert there["exact_positions"] == there["positions"]
    assert pointer_file.read(moving.on.pointer).remote_prefix is None
    written = count(producer, away, "produced")
    wait_for("traffic goes on", lambda: count(producer, away, "produced") > written + 300)
    for each in (quick, slow):
        wait_for(f"{each.name} reads there", lambda a=each: count(a, away, "consumed") > 100)

    back = moving.back()
    assert (moving.active, back["rpo_records"], back["read_again_at_most"]) == (home, 0, 0)
    written = count(producer, home, "produced")
    wait_for("traffic is home", lambda: count(producer, home, "produced") > written + 300)
    assert producer.terminate()[0] == 0
    for each in (quick, slow):
        wait_for(f"{each.name} has read all", lambda a=each: has_read_all(moving, a))
    moving.on.terminate_all()
    for each in (quick, slow):
        assert max(read(moving, each).values()) == 1, each.name
    acknowledged = [row for row in producer.history().produced if row.status is ProducedStatus.ACKED]
    assert len(acknowledged) == len(read(moving, quick))


def test_applications_move_while_the_other_cluster_is_written_to_and_read_again_what_was_said(moving: Moving) -> None:
    home, away, topic = moving.engine.source, moving.engine.target, moving.engine.topics
    producer = moving.on.producer(topic, records_per_second=200.0)
    group = moving.on.consumer(
        topic, f"{topic}.group", records_per_second=100.0, after_move_records_per_second=20_000.0
    )

    def others(end: threading.Event) -> None:
        """Clients of the other cluster, which do not follow the pointer."""
        for number in itertools.count():
            if end.wait(0.02):
                return
            produce(moving.engine.right, topic, 3, partitions=PARTITIONS, first=RIGHTS_FIRST + 3 * number)

    with beside(others):
        wait_for("traffic", lambda: count(producer, home, "produced") > 500 and count(group, home, "consumed") > 200)
        there = moving.there()
        assert (moving.active, there["rpo_records"]) == (away, 0)
        written = count(producer, away, "produced")
        wait_for("traffic goes on", lambda: count(producer, away, "produced") > written + 200)
    assert producer.terminate()[0] == 0
    wait_for("it has read all", lambda: has_read_all(moving, group))
    moving.on.terminate_all()
    again = sum(n - 1 for n in read(moving, group).values())
    assert again == there["read_again_at_most"]
