"""Another replicator copies a topic back under its name: the loop is noticed within seconds, stopped, and stays small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fix_engine import Engine, create_topic, latest_offsets, produce, read_all, wait_for
from fix_two_way import IDENTITY
from testbed_mm2 import connect_keys

from bench.mirror_maker import MirrorMaker2
from drlib.errors import UsageError
from drlib.mirror.status import worker_status as status

PARTITIONS, RECORDS = 2, 300
MOST_COPIES = 60
"""Of each record on one cluster: the rounds until it is suspected, and those of the trial."""
STOPPED_S = 150.0


@pytest.fixture
def one_way(engine: Engine) -> Engine:
    """A worker of one direction that keeps topic names."""
    engine.extra |= {
        "replication.policy.class": IDENTITY,
        "drlib.lanes": "2",
        "drlib.metrics.address": "127.0.0.1:0",
    }
    return engine


@pytest.fixture
def way_back(one_way: Engine, tmp_path: Path) -> Iterator[Engine]:
    """A worker of the other direction, with a file of its own."""
    (tmp_path / "back").mkdir()
    found = replace(one_way, root=tmp_path / "back", processes=[])
    found.extra = {
        **one_way.extra,
        f"{one_way.source}->{one_way.target}.enabled": "false",
        f"{one_way.target}->{one_way.source}.enabled": "true",
    }
    yield found
    found.close()


def create_both(engine: Engine) -> None:
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, engine.topics, PARTITIONS)


def reported(engine: Engine) -> status.WorkerStatus | None:
    try:
        return status.read(engine.status_path(len(engine.processes) - 1))
    except UsageError:  # none written yet
        return None


def running(engine: Engine) -> bool:
    state = reported(engine)
    return state is not None and state.state == "running"


def claimed(engine: Engine) -> bool:
    state = reported(engine)
    return state is not None and sum(len(flow.partitions) for flow in state.flows) == PARTITIONS


def length(engine: Engine) -> int:
    """Records on both clusters."""
    total = 0
    for bootstrap in (engine.left, engine.right):
        total += sum((latest_offsets(bootstrap, engine.topics, PARTITIONS) or {}).values())
    return total


def printed(engine: Engine, command: str) -> str:
    """What `drlib status` or `drlib doctor` prints."""
    argv = [sys.executable, "-m", "drlib.cli", command, str(engine.properties)]
    done = subprocess.run(
        argv, capture_output=True, encoding="utf-8", timeout=90, check=False, env={**os.environ, "COLUMNS": "400"}
    )
    return " ".join((done.stdout + done.stderr).split())


def assert_evidence(event: status.Event) -> None:
    """The offsets of a record, of its copy, and of where it returned."""
    assert re.search(r"offset \d+ was copied to \S+ at offset \d+, .* again, last at offset \d+", event.detail), event


def assert_stopped(engine: Engine) -> None:
    """The logs grow no more, every record is on both clusters, and none more often than a trial lasts."""
    sizes: list[int] = []

    def quiet() -> bool:
        sizes.append(length(engine))
        return len(sizes) > 40 and len(set(sizes[-40:])) == 1

    wait_for("no record is written any more", quiet, 60)
    for bootstrap in (engine.left, engine.right):
        for records in read_all(bootstrap, engine.topics, PARTITIONS).values():
            copies = Counter(records)
            assert len(copies) == RECORDS // PARTITIONS, f"{len(copies)} records\n{engine.log()}"
            assert max(copies.values()) <= MOST_COPIES, f"{copies.most_common(3)}\n{engine.log()}"


def test_two_workers_with_one_direction_each_stop_the_topic_when_its_records_return(
    one_way: Engine, way_back: Engine
) -> None:
    there, back = one_way, way_back
    for engine in (there, back):  # as neither has copied anything yet, neither is refused
        engine.start()
    for engine in (there, back):
        wait_for("it runs", lambda engine=engine: running(engine))
    create_topic(there.left, there.topics, PARTITIONS)
    for engine in (there, back):
        wait_for("it has claimed the topic", lambda engine=engine: claimed(engine))
    produce(there.left, there.topics, RECORDS, partitions=PARTITIONS)
    wait_for(
        "one of them stops the topic",
        lambda: any(each.reported("RecordsReturned", there.topics) for each in (there, back)),
        STOPPED_S,
    )
    assert_stopped(there)
    stopped = next(each for each in (there, back) if each.reported("RecordsReturned", there.topics))
    assert "RecordsReturned" in printed(stopped, "status")
    for engine in (there, back):
        assert engine.stop(engine.processes[0]) == 0, engine.log()


def assert_refused(engine: Engine, why: str) -> None:
    """A new worker ends by itself, with the reason."""
    worker = engine.start()
    assert worker.wait(60) == 2, engine.log()
    log = engine.log()
    assert f"topic {engine.topics} would be copied in a loop without end" in log
    assert why in log


def test_worker_does_not_start_beside_one_that_copies_the_way_back_by_another_file(
    one_way: Engine, way_back: Engine
) -> None:
    create_both(one_way)
    back = way_back.start()
    wait_for("it has claimed its lanes", lambda: claimed(way_back))
    assert_refused(one_way, "workers of drlib copy it from")
    assert "workers of drlib copy it from" in printed(one_way, "doctor")
    assert way_back.stop(back) == 0, way_back.log()
    worker = one_way.start()  # a journal without workers copies nothing
    wait_for("it has claimed its lanes", lambda: claimed(one_way))
    assert not one_way.reported("TopicLoop", one_way.topics)
    assert one_way.stop(worker) == 0, one_way.log()


def mirror_maker(way_back: Engine) -> MirrorMaker2:
    """The real MirrorMaker 2 as the way back."""
    way_back.extra |= connect_keys(way_back.source, way_back.target)
    return MirrorMaker2(way_back.root / "mm2", way_back.properties)


@pytest.mark.mm2
@pytest.mark.timeout(300)
def test_mirror_maker_that_copies_the_way_back_is_noticed_and_the_topic_is_stopped(
    one_way: Engine, way_back: Engine
) -> None:
    """Under other aliases, so that its records alone say that it runs."""
    engine = one_way
    create_both(engine)
    worker = engine.start()
    wait_for("it has claimed its lanes", lambda: claimed(engine))
    produce(engine.left, engine.topics, RECORDS, partitions=PARTITIONS)
    engine.wait_caught_up(engine.topics, PARTITIONS)
    other = replace(way_back, source=f"{way_back.source}X", target=f"{way_back.target}X", extra={})
    other.extra = {
        "replication.policy.class": IDENTITY,
        f"{other.source}->{other.target}.enabled": "false",
        f"{other.target}->{other.source}.enabled": "true",
    }
    maker = mirror_maker(other)
    try:
        maker.start()
        event = engine.wait_reported("RecordsReturned", engine.topics, deadline_s=90)
        assert_evidence(event)
        assert_stopped(engine)
    finally:
        maker.kill()
    assert "RecordsReturned" in printed(engine, "status")
    assert engine.stop(worker) == 0, engine.log()


@pytest.mark.mm2
@pytest.mark.timeout(300)
def test_worker_does_not_start_beside_a_mirror_maker_that_copies_the_way_back(
    one_way: Engine, way_back: Engine
) -> None:
    create_both(one_way)
    maker = mirror_maker(way_back)
    try:
        maker.start()
        produce(one_way.right, one_way.topics, PARTITIONS, partitions=PARTITIONS)
        wait_for("MirrorMaker 2 copies", lambda: length(one_way) == 2 * PARTITIONS)
        assert_refused(one_way, "MirrorMaker 2 copies it from")
    finally:
        maker.kill()
