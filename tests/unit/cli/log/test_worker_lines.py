"""Which changes of a worker's status are lines of its log."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from sample_flow import FLOW, NOW, worker

from drlib.cli.log.lines import LogLine, as_json, as_text
from drlib.cli.log.worker_lines import StatePrinter, write_notices
from drlib.config.notices import Notice
from drlib.mirror.status.causes import bounded, group_by_cause
from drlib.mirror.status.event_kinds import HOLD_S, KINDS, Level
from drlib.mirror.status.event_log import Event, EventLog
from drlib.mirror.status.worker_status import WorkerStatus


class Log:
    """An event log whose clock a test moves, and the lines that a printer writes about it."""

    def __init__(self) -> None:
        self.at = NOW / 1000
        self.events = EventLog(FLOW, now=lambda: self.at)
        self.lines: list[LogLine] = []
        self._printer = StatePrinter(write=self.lines.append)
        self.look()
        self.lines.clear()

    def status(self, state: str = "running") -> WorkerStatus:
        events, omitted = bounded(group_by_cause(self.events.snapshot()))
        return replace(worker(*events, state=state), at_ms=int(self.at * 1000), events_omitted=omitted)

    def look(self, state: str = "running") -> list[str]:
        """What is written now, as "Parked open 500"."""
        self.lines.clear()
        self._printer(self.status(state))
        return [" ".join(map(str, filter(None, (line.name, line.status, line.count)))) for line in self.lines]

    def park(self, *numbers: int, why: str = "too large") -> None:
        for number in numbers:
            self.events.open("Parked", f"orders-{number}", f"orders-{number}: {why}")

    def go_on(self, *numbers: int) -> None:
        for number in numbers:
            self.events.resolve("Parked", f"orders-{number}")


def test_five_hundred_partitions_refused_for_one_reason_are_one_line() -> None:
    log = Log()
    log.park(*range(500))
    assert log.look() == []
    log.at += 1
    assert log.look() == ["Parked open 500"]
    (line,) = log.lines
    assert line.entity == "orders-0, orders-1, orders-2 and 497 more"
    assert (line.level, line.flow, line.remedy, line.since_ms) == (Level.ERROR, FLOW, KINDS["Parked"].remedy, NOW)
    assert log.look() == []
    log.go_on(*range(499))
    log.at += HOLD_S
    assert log.look() == []
    log.go_on(499)
    log.at += HOLD_S
    assert log.look() == ["Parked resolved 500"]


def test_two_reasons_are_two_lines() -> None:
    log = Log()
    log.park(1, 2)
    log.park(3, 4, why="no key")
    log.at += 1
    assert log.look() == ["Parked open 2", "Parked open 2"]


def test_event_that_grows_is_written_again_at_ten_times_its_size() -> None:
    log = Log()
    written = []
    for number in range(250):
        log.park(number)
        log.at += 1.1
        written += log.look()
    assert written == ["Parked open 1", "Parked more 10", "Parked more 100"]


def test_event_of_one_partition_has_lane_topic_and_partition() -> None:
    log = Log()
    log.park(0)
    log.at += 1
    log.look()
    (line,) = log.lines
    assert (line.lane, line.topic, line.partition, line.entity) == (0, "orders", 0, "orders-0")


@pytest.mark.parametrize(
    ("name", "entity", "expected"),
    [
        ("TopicRecreated", "orders-2024", (None, "orders-2024", None)),
        ("LaneFailed", f"{FLOW} lane 7", (7, "", None)),
        ("LaneLost", "drlib.LEFT.RIGHT.3", (3, "", None)),
        ("GroupLive", "billing-1", (None, "", None)),
        ("SourceUnreachable", FLOW, (None, "", None)),
        ("MirrorContradiction", "LEFT.orders-0", (0, "LEFT.orders", 0)),
    ],
)
def test_entity_is_read_as_its_kind_says(name: str, entity: str, expected: tuple[object, ...]) -> None:
    lines: list[LogLine] = []
    StatePrinter(write=lines.append)(worker(Event(name, entity, "why", NOW, flow=FLOW)))
    assert (lines[-1].lane, lines[-1].topic, lines[-1].partition) == expected


def test_event_that_ended_within_a_second_is_one_line_at_debug_level() -> None:
    log = Log()
    log.park(0)
    log.at += 0.3
    log.go_on(0)
    assert log.look() == []
    log.at += HOLD_S
    assert log.look() == ["Parked brief 1"]
    assert log.lines[0].level is Level.DEBUG
    assert log.lines[0].detail.startswith("after 0.3 s: ")
    assert log.look() == []


def test_event_that_is_not_settled_when_the_worker_ends_is_written() -> None:
    log = Log()
    log.park(0)
    assert log.look("failed") == ["Parked open 1"]


def test_event_that_comes_back_after_it_was_resolved_is_written_again() -> None:
    log = Log()
    for _ in range(2):
        log.park(0)
        log.at += 1
        assert log.look() == ["Parked open 1"]
        log.go_on(0)
        log.at += HOLD_S
        assert log.look() == ["Parked resolved 1"]


def test_event_whose_detail_changes_is_one_line() -> None:
    log = Log()
    log.events.open("SourceUnreachable", FLOW, "connection refused")
    log.at += 1
    assert log.look() == ["SourceUnreachable open 1"]
    log.events.open("SourceUnreachable", FLOW, "timed out")
    assert log.look() == []


def test_more_causes_than_are_listed_are_neither_silent_nor_resolved() -> None:
    log = Log()
    for number in range(150):
        log.events.open("GroupLive", f"group {number}", "why " + "x" * number)
    log.at += 1
    written = log.look()
    assert len(written) == 101
    assert written[-1] == "EventsOmitted"
    assert "50 more events" in log.lines[-1].detail
    log.park(0)  # takes the place of one that was listed
    log.at += 1
    assert log.look() == ["Parked open 1"]


def test_few_causes_that_are_not_listed_are_stated_once() -> None:
    log = Log()
    for number in range(103):
        log.events.open("GroupLive", f"group {number}", "why " + "x" * number)
    log.at += 1
    assert log.look()[-1] == "EventsOmitted"
    assert "3 more events" in log.lines[-1].detail
    assert log.look() == []


def test_state_is_written_when_it_changes_and_not_when_it_fails() -> None:
    lines: list[LogLine] = []
    printer = StatePrinter("worker 2", write=lines.append)
    for state in ("starting", "running", "running", "stopping", "stopped", "failed"):
        printer(worker(state=state))
    assert [line.status for line in lines] == ["running", "stopping", "stopped"]
    assert {line.worker for line in lines} == {"worker 2"}
    assert "LEFT->RIGHT (1 partitions); /status and /metrics at http://127.0.0.1:9464" in lines[0].detail


def test_every_kind_of_event_is_one_line_in_both_forms() -> None:
    lines: list[LogLine] = []
    StatePrinter(write=lines.append)(worker(*(Event(name, "x-1", "why", NOW, flow=FLOW) for name in KINDS)))
    assert {line.name for line in lines} == {"Worker", *KINDS}
    assert all(line.level is KINDS[line.name].level for line in lines[1:])
    assert all(len(form(line).splitlines()) == 1 for line in lines for form in (as_text, as_json))


def test_keys_without_effect_for_one_reason_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    same = "drlib runs no Connect worker"
    with caplog.at_level(logging.WARNING, "drlib.mirror"):
        write_notices(Path("a.properties"), (Notice(3, "x", same), Notice(4, "z", "other"), Notice(5, "y", same)))
    assert [record.__dict__["line"].detail for record in caplog.records] == [
        f"a.properties:3, 5: x, y: {same}",
        "a.properties:4: z: other",
    ]
