"""A finished incident, as its files record it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drlib.lab.processes import wait_until
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind, Measurements
from drlib.training.incidents.rules.seed import draw_plan

MEASUREMENTS = Measurements(recovered=True, lost=0, read_again=0, doubled=0)


@pytest.fixture
def record(tmp_path: Path) -> IncidentRecord:
    """An incident with a hint, a harmful move, the diagnosis and the repair."""
    record = IncidentRecord(tmp_path)
    plan = draw_plan(1, 1)
    record.write(
        EventKind.STARTED, seed=1, level=1, sealed=record.seal_plan(plan), lab=str(tmp_path / "lab"), own_lab=True
    )
    (cause,) = plan.causes
    record.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    record.write(EventKind.SYMPTOM, word="a topic is not mirrored, or more slowly than it is written")
    record.write(EventKind.ACTED, move="acknowledge", said="recorded")
    record.write(EventKind.ACTED, move="move-applications RIGHT", said="done")
    record.write(EventKind.HINTED, word="Look at the link.")
    record.write(EventKind.DIAGNOSED, word=cause.cause)
    record.write(EventKind.ACTED, move=str(cause.repair[0]), said="done")
    repaired_ms = time.time_ns() // 1_000_000
    wait_until(
        lambda: time.time_ns() // 1_000_000 > repaired_ms, 5, every_s=0.001
    )  # recovery takes more than a millisecond
    record.write_sealed(EventKind.RECOVERED)
    record.write(EventKind.FINISHED, recovered=True, lost=0, read_again=0)
    record.save_measurements(MEASUREMENTS)
    return record
