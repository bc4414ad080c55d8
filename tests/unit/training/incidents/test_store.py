"""Incidents found again in their run folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from drlib.errors import DrlibError, MissingDependency, UsageError
from drlib.lab.processes import ProcessRegistry
from drlib.runbook import history
from drlib.runs.journal import JOURNAL
from drlib.runs.lock import alone
from drlib.training.incidents import store
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.lab.testbed import WATCH
from drlib.training.incidents.record import GAME, IncidentRecord
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan


def test_find_returns_newest_incident_and_refuses_missing_ones(record: IncidentRecord, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no incident in"):
        store.find(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not the folder of an incident"):
        store.find(tmp_path, Path("other"))
    assert store.find(tmp_path.parent, record.folder).folder == record.folder
    assert store.find(tmp_path.parent).folder.parent == tmp_path.parent
    incident = Incident(record.folder)
    for call in (
        lambda: incident.act("stop-mirror"),
        lambda: incident.diagnose("full-disk"),
        incident.hint,
        incident.finish,
        incident.status,
    ):
        with pytest.raises(UsageError, match="is over"):
            call()


def test_find_returns_the_incident_that_was_started_last_not_the_one_that_wrote_last(tmp_path: Path) -> None:
    for name, written_s in (
        ("20261128T082101Z-incident-9f0023", 2_000_000_000),
        ("20261128T082133Z-incident-6bc8b7", 1),
    ):
        record = IncidentRecord(tmp_path / name)
        record.folder.mkdir(parents=True)
        record.write(EventKind.STARTED, sealed=record.seal_plan(draw_plan(1, 1)), seed=1, level=1, lab="", own_lab=True)
        os.utime(record.folder / JOURNAL, (written_s, written_s))
    assert store.find(tmp_path).folder.name == "20261128T082133Z-incident-6bc8b7"


def test_running_incidents_are_those_that_are_watched(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "state.json").write_text('{"clusters": {}, "extra": {}}')
    for name in ("first", "second"):
        record = IncidentRecord(tmp_path / "runs" / name)
        record.folder.mkdir(parents=True)
        sealed, there = record.seal_plan(draw_plan(1, 1)), lab if name == "first" else tmp_path / "none"
        record.write(EventKind.STARTED, seed=1, level=1, sealed=sealed, lab=str(there), own_lab=True)
    assert store.running(tmp_path / "runs") == ()
    registry = ProcessRegistry(lab)
    registry.start(
        WATCH, [sys.executable, "-c", "import signal; signal.pause()"], log=tmp_path / "log", die_with_parent=True
    )
    try:
        assert store.running(tmp_path / "runs") == (tmp_path / "runs" / "first",)
    finally:
        registry.stop(WATCH)
    assert store.running(tmp_path / "runs") == ()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"level": 9}, "level 9"),
        ({"seed": -1}, "a seed is not negative"),
        ({"lab_dir": "no-lab"}, "no-lab"),
    ],
)
def test_rejected_start_leaves_no_folder_in_history(options: dict[str, object], why: str, tmp_path: Path) -> None:
    runs, chosen = tmp_path / "runs", {"seed": 1, "level": 1, **options}
    lab = Path(str(chosen.pop("lab_dir"))) if "lab_dir" in chosen else None
    with pytest.raises(DrlibError, match=why):
        store.begin(runs, chosen["seed"], chosen["level"], lab_dir=lab)  # type: ignore[arg-type]
    with pytest.raises(DrlibError, match=why):
        store.open_incident(tmp_path / "one" / "two", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    assert list(history.read_runs(runs)) == []


@pytest.mark.parametrize(("options", "why"), [({"player": "nobody"}, "player nobody"), ({"seat": "a/b"}, "a/b")])
def test_start_with_a_wrong_player_or_seat_is_rejected_before_there_is_a_folder(
    options: dict[str, str], why: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=why):
        store.open_incident(tmp_path / "one", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_start_that_fails_leaves_no_folder_and_nothing_in_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No jars: the lab cannot be brought up, which is known only after its folder was made."""
    monkeypatch.setenv("DRLIB_JARS", str(tmp_path / "nowhere"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    existing = tmp_path / "run"
    existing.mkdir()
    (existing / "executed.ipynb").write_text("{}")
    with pytest.raises(DrlibError):
        store.begin(tmp_path / "runs", 1, 1)
    for folder in (existing, tmp_path / "one" / "two"):
        with pytest.raises(DrlibError):
            store.open_incident(folder, seed=1, level=1)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "run",
        "run/executed.ipynb",
    ]


def test_what_a_killed_start_has_left_is_removed_by_the_next_start_and_one_that_runs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registries = {}
    for name in ("killed", "running", "started"):
        lab = tmp_path / f"20261128T082101Z-incident-{name}" / "lab"
        lab.mkdir(parents=True)
        (lab / ".drlib-lab").write_text("drlib lab")
        (lab / "state.json").write_text('{"clusters": {}, "extra": {}}')
        registries[name] = ProcessRegistry(lab)
        registries[name].start("LEFT-1", [sys.executable, "-c", "import signal; signal.pause()"], log=lab / "log")
    (registries["started"].root.parent / GAME).mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        with alone(registries["running"].root.parent, ".starting.lock", "", ""), pytest.raises(MissingDependency):
            store.begin(tmp_path, 1, 1)
        assert not registries["killed"].alive("LEFT-1")
        assert sorted(path.name[26:] for path in tmp_path.iterdir()) == ["running", "started"]
        assert all(registries[name].alive("LEFT-1") for name in ("running", "started"))
    finally:
        for name in ("running", "started"):
            registries[name].stop_all(deadline_s=5.0)
