"""Pointer, specs, status, pace: the small files and numbers the applications go by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.client import pointer, pointer_file
from drlib.client.pointer import Pointer, PointerConflict
from drlib.client.pointer_file import PointerWatcher
from drlib.errors import Unreachable, UsageError
from drlib.lab.apps import specs
from drlib.lab.apps.pacing import Pace
from drlib.lab.apps.process import StatusFile, read_status

LEFT = Pointer(1, "LEFT", "127.0.0.1:1")
RIGHT = Pointer(2, "RIGHT", "127.0.0.1:2", "LEFT.", {"LEFT.flights": (3, 0)})


def test_a_pointer_comes_back_as_it_was(tmp_path: Path) -> None:
    for one in (LEFT, RIGHT, Pointer(3, "RIGHT", "h:1", hold=True)):
        pointer_file.write_atomic(tmp_path / "pointer.json", one)
        assert pointer_file.read(tmp_path / "pointer.json") == one
    assert [path.name for path in tmp_path.iterdir()] == ["pointer.json"]
    assert (LEFT.remote_topic("flights"), RIGHT.remote_topic("flights")) == (None, "LEFT.flights")


def test_the_documented_form_is_read() -> None:
    content = (
        b"""{"version": 1, "active": "LEFT", "bootstrap": "h:1", "remote_prefix": null, "cutover": {"a": [1, 2]}}"""
    )
    assert pointer.decode(content) == Pointer(1, "LEFT", "h:1", None, {"a": (1, 2)})
    assert pointer.decode(b'{"version": 1, "active": "LEFT", "bootstrap": "h:1"}') == Pointer(1, "LEFT", "h:1")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 1}',
        b'{"version": "1", "active": "L", "bootstrap": "h"}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": []}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": 5}}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "hold": "yes"}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "remote_prefix": 3}',
    ],
)
def test_what_is_no_pointer_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="is not a pointer"):
        pointer.decode(content)


def test_a_watcher_sees_a_move_and_never_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    watcher = PointerWatcher(path, interval_s=0.0)
    assert watcher.current() is None
    pointer_file.write_atomic(path, LEFT)
    assert watcher.current() == LEFT
    pointer_file.write_atomic(path, RIGHT)
    assert watcher.current() == RIGHT
    assert watcher.doubt() == ""
    path.write_bytes(pointer.encode(LEFT))
    assert watcher.current() == RIGHT
    assert watcher.doubt() == "pointer.json went back from version 2 to 1"
    path.write_bytes(b"torn")
    assert watcher.current() == RIGHT
    assert "is not a pointer" in watcher.doubt()
    path.unlink()
    assert watcher.current() == RIGHT
    assert watcher.doubt() == "pointer.json is not there"
    pointer_file.write_atomic(path, Pointer(3, "LEFT", "h:1"))
    assert watcher.wait_newer(2, 1.0) == Pointer(3, "LEFT", "h:1")
    assert watcher.doubt() == ""
    assert watcher.wait_newer(3, 0.01) is None


def test_a_version_is_written_once_and_never_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, RIGHT)
    pointer_file.write_atomic(path, RIGHT)
    for late in (LEFT, Pointer(2, "LEFT", "127.0.0.1:1")):
        with pytest.raises(PointerConflict, match="it holds version 2, which names RIGHT"):
            pointer_file.write_atomic(path, late)
    assert pointer_file.read(path) == RIGHT
    assert [entry.name for entry in tmp_path.iterdir()] == ["pointer.json"]


def test_the_newest_word_counts_and_two_words_of_one_version_are_told() -> None:
    assert pointer.newest([]) is None
    assert pointer.newest([RIGHT, LEFT, RIGHT]) == RIGHT
    rival = Pointer(2, "LEFT", "127.0.0.1:1")
    with pytest.raises(PointerConflict, match="version 2 of the pointer says two things"):
        pointer.newest([RIGHT, rival])
    assert pointer.newest([RIGHT, rival, Pointer(3, "LEFT", "h:1")]) == Pointer(3, "LEFT", "h:1")


def test_a_watcher_looks_no_more_often_than_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    watcher = PointerWatcher(path, interval_s=3600.0)
    assert watcher.current() is None
    pointer_file.write_atomic(path, LEFT)
    assert watcher.current() is None


def test_waiting_for_a_pointer_ends(tmp_path: Path) -> None:
    watcher = PointerWatcher(tmp_path / "pointer.json", interval_s=0.001)
    with pytest.raises(Unreachable, match="no pointer"):
        watcher.wait(0.01)
    assert watcher.wait(60.0, stopping=lambda: True) is None
    pointer_file.write_atomic(tmp_path / "pointer.json", LEFT)
    assert watcher.wait(1.0) == LEFT


def test_specs_come_back_as_they_were(tmp_path: Path) -> None:
    producer = specs.ProducerSpec("p", "h", specs.ProducerMode.FLIGHTS_TX, records_per_second=1.0)
    consumer = specs.ConsumerSpec("p", "h", "arrivals", after_move_records_per_second=5.0, status="s")
    specs.write(tmp_path / "a", producer)
    specs.write(tmp_path / "b", consumer)
    assert specs.load(tmp_path / "a", specs.ProducerSpec) == producer
    assert specs.load(tmp_path / "b", specs.ConsumerSpec) == consumer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gruop": "x"}, "unknown key 'gruop'"),
        ({"max_batch": "500"}, "'max_batch' in spec.json is '500'"),
        ({"max_batch": True}, "'max_batch' in spec.json is True"),
        ({"records_per_second": None}, "'records_per_second' in spec.json is None"),
        ({"group": None}, "'group' in spec.json is None"),
    ],
)
def test_a_wrong_spec_names_its_key(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"pointer": "p", "history": "h", "group": "g", **change}))
    with pytest.raises(UsageError, match=said):
        specs.load(path, specs.ConsumerSpec)


def test_a_spec_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    with pytest.raises(UsageError, match="cannot read"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text("[]")
    with pytest.raises(UsageError, match="is not a spec"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text('{"pointer": "p"}')
    with pytest.raises(UsageError, match="incomplete"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text('{"pointer": "p", "history": "h", "mode": "fly"}')
    with pytest.raises(UsageError, match="'mode'"):
        specs.load(path, specs.ProducerSpec)


def test_a_status_is_written_at_once_when_the_phase_changes(tmp_path: Path) -> None:
    path = tmp_path / "status"
    assert read_status(path) is None
    status = StatusFile("producer:flights", str(path))
    for phase, done in (("running", 1), ("running", 2), ("waiting", 3)):
        status.report(phase, "LEFT", 1, done, 7)
        seen = read_status(path)
        assert seen is not None
        assert (seen.phase, seen.done, seen.in_flight) == (phase, 1 if phase == "running" else 3, 7)
    path.write_text("{}")
    with pytest.raises(UsageError, match="is no status"):
        read_status(path)


def test_a_pace_lets_the_backlog_go_and_then_its_rate() -> None:
    now = [100.0]
    pace = Pace(10.0, 3, lambda: now[0])
    assert pace.due() == 3
    now[0] += 60
    pace.count(3)
    assert pace.due() == 600
    pace.forgive()
    assert pace.due() == 0
    now[0] += 0.5
    assert pace.due() == 5
    pace.count(5)
    assert pace.due() == 0
    assert Pace(0.0, 0, lambda: now[0]).due() > 1000
