"""Incidents of tests: started in the test's folder, and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fix_engine import wait_for
from incident_seeds import seed_for
from own_processes import processes_of

from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import GAME
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.symptoms import Symptom

Start = Callable[..., Incident]


def incidents_in(folder: Path) -> Iterator[Start]:
    """Starts incidents that are ended after the test: `start("broker-killed")`, `start(level=4, seed=10)`, `start(seed=16)`."""
    made: list[Path] = []

    def begin(cause: str = "", level: int | None = None, seed: int | None = None, **options: object) -> Incident:
        run = folder / f"run-{len(made)}"
        run.mkdir()
        made.append(run)
        chosen = CAUSES[cause].level if cause and level is None else level
        drawn = seed_for(cause, chosen) if seed is None else seed
        return Incident.start(run, drawn, chosen, at_once=True, **options)  # type: ignore[arg-type]

    yield begin
    for run in made:
        if (run / "journal.jsonl").exists():
            Incident(run).close()
    assert processes_of(folder) == []


def wait_for_symptoms(incident: Incident, *wanted: Symptom) -> None:
    wait_for(f"symptoms {wanted}", lambda: set(wanted) <= set(incident.status()[1]))


def names_no_cause(incident: Incident, level: int | None) -> None:
    """Neither the run folder (but for its sealed part), nor the lab, nor a process says which causes were injected, and the
    level is what was asked for: one that the seed chose says something of the causes."""
    names = [injected.cause.encode() for injected in incident.record.injected_causes()]
    assert names
    lab = incident.testbed().lab
    files = [
        path
        for path in incident.folder.rglob("*")
        if path.is_file() and not {GAME, "data"} & set(path.relative_to(incident.folder).parts)
    ]
    processes = [Path("/proc", str(process.pid), "cmdline") for process in lab.registry.records()]
    assert len(processes) > 8
    assert any(path.parent.name == "history" for path in files)
    found = [str(path) for path in (*files, *processes) for name in names if name in contents(path)]
    assert found == []
    assert incident.record.lines()[0].data["level"] == level


def contents(path: Path) -> bytes:
    """The name and the contents of a file; it may have been replaced, or its process have ended."""
    try:
        return str(path).encode() + path.read_bytes()
    except FileNotFoundError:
        return str(path).encode()
