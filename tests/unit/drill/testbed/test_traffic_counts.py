"""Samples of a drill's traffic: what is counted of histories and workers that go on, die and begin again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from drlib.drill.testbed import sampler
from drlib.drill.testbed.traffic_counts import ApplicationCounts, Counts, HistoryCounter
from drlib.errors import UsageError
from drlib.lab.checker.history import Consumed, Produced, ProducedStatus, encode, encode_end
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.status import worker_status as mirror_status
from drlib.mirror.status.worker_status import FlowStatus, PartitionStatus, WorkerStatus


def sent(number: int, status: ProducedStatus = ProducedStatus.ACKED) -> bytes:
    return encode(Produced(f"r{number}", "k", number, "LEFT", "T", 0, number, 1, 2, status))


def read(number: int) -> bytes:
    return encode(Consumed("g", "LEFT", "T", 0, number, f"r{number}", "k", number, 3))


def test_history_counter_counts_growing_history_by_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    counter = HistoryCounter(path)
    counter.read_on()
    assert (counter.begun, counter.acked, counter.consumed) == (False, 0, 0)
    third = read(3)
    path.write_bytes(sent(1) + sent(2, ProducedStatus.IN_DOUBT) + third[:9])
    counter.read_on()
    assert (counter.begun, counter.acked, counter.consumed) == (True, 1, 0)
    with path.open("ab") as file:
        file.write(third[9:] + encode_end() + sent(4))  # ended, and started again
    counter.read_on()
    counter.read_on()
    assert (counter.acked, counter.consumed) == (2, 1)


def place(tmp_path: Path) -> LabApplications:
    (tmp_path / "history").mkdir()
    return LabApplications(cast(Lab, SimpleNamespace(root=tmp_path)), tmp_path / "history")


def worker(tmp_path: Path, name: str, **mirrored: int) -> None:
    """`LEFT_RIGHT=7`: that flow has mirrored 7 records of T."""
    flows = tuple(
        FlowStatus(flow.replace("_", "->"), (), (PartitionStatus("T", 0, "x", 0, at, at, at, at),), at, 0)
        for flow, at in mirrored.items()
    )
    mirror_status.write(tmp_path / f"T-mirror-{name}.status.json", WorkerStatus(1, 1, "running", flows))


def test_application_counts_mirrored_is_minimum_of_targets(tmp_path: Path) -> None:
    counts = ApplicationCounts(place(tmp_path), "T", ["p"], {"a": ["a1", "a2"], "b": ["b1"]})
    assert counts() == Counts(0, 0, {})
    (tmp_path / "history" / "p.jsonl").write_bytes(sent(1) + sent(2))
    (tmp_path / "history" / "a2.jsonl").write_bytes(read(1))
    worker(tmp_path, "all", LEFT_RIGHT=7, RIGHT_LEFT=5)
    assert counts() == Counts(2, 12, {"a": 1})
    worker(tmp_path, "third", LEFT_THIRD=0, RIGHT_THIRD=4)
    assert counts().mirrored == 4  # a target that joins has nothing yet
    worker(tmp_path, "all", LEFT_RIGHT=0, RIGHT_LEFT=-1)  # started again, it has not looked yet
    worker(tmp_path, "third", LEFT_THIRD=6, RIGHT_THIRD=9)
    assert counts().mirrored == 6 + 5
    (tmp_path / "T-mirror-third.status.json").write_text("half")
    assert counts().mirrored == 6 + 5


def test_sampler_failed_count_is_skipped(tmp_path: Path) -> None:
    asked: list[int] = []

    def count() -> Counts:
        asked.append(1)
        if len(asked) == 1:
            raise UsageError("no", "not yet", "wait")
        return Counts(len(asked), 1, {"g": 0})

    sampler.start(tmp_path, count)
    sampler.start(tmp_path, lambda: Counts(99, 99, {}))  # there is one already
    _until(lambda: len(asked) > 2)
    found = sampler.stop(tmp_path)
    assert [one.produced for one in found] == list(range(2, len(asked) + 1))
    assert found[-1].at_ms >= found[0].at_ms
    assert sampler.stop(tmp_path) == found
    assert len(asked) == len(found) + 1  # none is taken after the end


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
