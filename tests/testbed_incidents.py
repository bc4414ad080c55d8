"""Incidents of tests: started in the test's folder, and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fix_engine import wait_for
from incident_seeds import seed_for
from own_processes import processes_of

from drlib.training.incidents.incident import Incident
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
