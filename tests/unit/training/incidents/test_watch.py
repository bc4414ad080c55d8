"""What the watch of an incident records."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from drlib.lab.apps.process import Stop
from drlib.lab.lab import PROXY, Lab
from drlib.lab.processes import ProcessRegistry
from drlib.training.incidents import watch
from drlib.training.incidents.lab.testbed import MIRROR, IncidentTestbed
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan
from drlib.training.incidents.rules.symptoms import Observation
from drlib.training.incidents.watch import IncidentWatch, symptom_changes


def test_symptom_changes_records_new_ones_and_those_that_are_gone() -> None:
    assert symptom_changes(set(), set()) == ()
    assert symptom_changes({"a", "b"}, {"b", "c", "d"}) == (
        (EventKind.SYMPTOM, "c"),
        (EventKind.SYMPTOM, "d"),
        (EventKind.SYMPTOM_GONE, "a"),
    )


def test_watch_observes_before_it_injects_faults_that_take_long(
    record: IncidentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    stop = Stop()

    class Ordered(IncidentWatch):
        def _observe(self) -> None:
            order.append("observed")

    def inject(*_: object) -> None:
        order.append("injected")
        stop.set()

    monkeypatch.setattr(watch, "Observer", lambda _: None)
    monkeypatch.setattr(watch, "inject_and_record", inject)
    monkeypatch.setattr(IncidentRecord, "baseline", lambda _: None)
    monkeypatch.setattr(IncidentRecord, "plan", lambda _: draw_plan(1, 1))
    Ordered(cast(IncidentTestbed, None), record).run(stop, 0.0)
    assert order == ["observed", "injected"]


def test_forgotten_incident_stops_what_writes_and_is_not_watched_any_more(
    record: IncidentRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "state.json").write_text('{"clusters": {}, "extra": {}}')
    registry = ProcessRegistry(lab)
    program = [sys.executable, "-c", "import signal; signal.pause()"]
    for name in ("flights", "arrivals", MIRROR, PROXY):
        registry.start(name, program, log=tmp_path / "log")
    record.save_baseline(Observation(0, (), (), (), (), True, ()))
    monkeypatch.setattr(watch, "LASTS_S", 0.0)
    stop = Stop()
    late = threading.Timer(5.0, stop.set)
    late.start()
    try:
        IncidentWatch(IncidentTestbed(Lab.attach(lab), record.folder), record).run(stop, None)
        assert not stop(), "it ended by itself"
        assert [process.name for process in registry.status() if process.alive] == [PROXY]
    finally:
        late.cancel()
        registry.stop_all(deadline_s=5.0)
