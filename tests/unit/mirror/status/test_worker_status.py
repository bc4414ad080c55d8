"""A worker's status file and its events."""

import json
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.event_kinds import HOLD_S
from drlib.mirror.status.event_log import KEPT
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import (
    Event,
    EventLog,
    FlowStatus,
    LaneStatus,
    PartitionStatus,
    Spread,
    WorkerStatus,
)


def partition(number: int, mirrored: int, high_watermark: int) -> PartitionStatus:
    return PartitionStatus("flights", number, "LEFT.flights", 0, mirrored, mirrored, high_watermark, mirrored)


STATE = WorkerStatus(
    4711,
    1_700_000_000_000,
    "mirroring",
    (
        FlowStatus(
            "LEFT->RIGHT", (LaneStatus(0, "open", 12, 3),), (partition(0, 90, 100), partition(1, 5, 6)), 95, 9500
        ),
        FlowStatus("RIGHT->LEFT", (), (partition(0, 8, 7),), 8, 800),
    ),
    (Event("parked", "flights-0", "out of range ☂", 1, 2),),
)


def test_write_then_read_returns_the_same_status(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    status.write(path, STATE)
    assert status.read(path) == STATE


def test_write_then_read_keeps_unknown_values(tmp_path: Path) -> None:
    whole = PartitionStatus(
        *("flights", 0, "LEFT.flights", 0, 5, 5, 9, 5, "", False, 7, 2, 5, 50),
        Outlook(lag_s=1.5, eta_s=None, warning="soon"),
        Spread(1.0, 0.5, 0.75, 2.0),
    )
    state = WorkerStatus(1, 2, "running", (FlowStatus("A->B", (), (whole,), 5, 50, None, 2.5),))
    assert status.decode(status.encode(state)) == state


def test_partition_lag_excludes_expired_offsets() -> None:
    lost = PartitionStatus("t", 0, "A.t", 0, 5, 5, 20, 5, log_start=15)
    assert lost.lag == 5
    assert lost.known
    assert not PartitionStatus("t", 0, "A.t", 0, 5, 5, -1, 5).known


def test_pause_s_limits_measuring_and_reporting_to_a_hundredth_of_a_core() -> None:
    assert status.pause_s(0.25, 0.001) == 0.25
    assert status.pause_s(0.25, 0.02) == 4.0


def test_pause_s_is_bounded() -> None:
    assert status.pause_s(0.25, 31.0) == status.LONGEST_S
    assert status.pause_s(60.0, 31.0) == 60.0


def test_write_file_mode_is_0600_and_no_temporary_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    status.write(path, STATE)
    status.write(path, STATE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["status.json"]


def test_write_failure_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "status.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        status.write(tmp_path / "status.json", STATE)
    assert [found.name for found in tmp_path.iterdir()] == ["status.json"]


def test_partition_lag_is_never_negative() -> None:
    assert [p.lag for flow in STATE.flows for p in flow.partitions] == [10, 1, 0]
    assert STATE.lag == 11


def test_read_missing_file_names_the_option_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no worker status at .*--status"):
        status.read(tmp_path / "status.json")


@pytest.mark.parametrize("content", ["", "[]", '{"pid": 1', json.dumps({"pid": "x"})])
def test_read_other_file_is_a_usage_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"status\.json is no worker status"):
        status.read(path)


def test_snapshot_keeps_all_open_and_the_last_resolved_events() -> None:
    at = 1_700_000_000.0
    log = EventLog(now=lambda: at)
    for number in range(2 * KEPT + 50):
        log.open("Parked", f"flights-{number}", "")
        if number % 2:
            log.resolve("Parked", f"flights-{number}")
    at += HOLD_S
    found = log.snapshot()
    assert sum(e.resolved_ms is None for e in found) == KEPT + 25
    expected = [f"flights-{n}" for n in range(51, 2 * KEPT + 50, 2)]
    assert [e.entity for e in found if e.resolved_ms is not None] == expected
