"""A team at one incident on real clusters: a trainer, two acting seats and a read-only one, until the debriefing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fix_engine import wait_for
from testbed_incidents import Start, incidents_in, wait_for_symptoms

from drlib.errors import UsageError
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.symptoms import Symptom
from drlib.training.incidents.store import open_incident


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from incidents_in(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_team_repairs_an_incident_one_move_at_a_time_and_compares_its_estimates(start: Start) -> None:
    incident = start("broker-killed")
    folder = incident.folder
    tom = open_incident(folder, seat="Tom", role="trainer")
    ana, bo = (open_incident(folder, seat=name, role="acting") for name in ("Ana", "Bo"))
    cy = open_incident(folder, seat="Cy", role="read-only")
    wait_for_symptoms(incident, Symptom.SITE_SILENT)
    assert "a site does not answer" in repr(cy.live())
    with pytest.raises(UsageError, match="its role is read-only"):
        cy.act("acknowledge")
    ana.act("acknowledge")
    bo.diagnose("broker-killed")
    (injected,) = incident.record.injected_causes()
    (repair,) = injected.repair
    with ThreadPoolExecutor(1) as other:
        made = other.submit(ana.act, str(repair), estimate_s=30)
        wait_for("the move has begun", lambda: "under way, estimated 30 s" in repr(cy.live()), 20)
        with pytest.raises(UsageError, match=f"restart-mirror was not made: Ana makes {repair} since"):
            bo.act("restart-mirror", estimate_s=10)
        made.result(120)
    wait_for("the incident has recovered", lambda: incident.unresolved() == (), 90)
    with pytest.raises(UsageError, match="its role is acting; those who finish the incident: Tom"):
        ana.finish()
    assert "broker-killed" in repr(tom.master())
    tom.finish()
    reveal = incident.reveal()
    assert (reveal.score.wrong, reveal.score.harmful) == (0, 0)
    assert f"Ana: {repair}" in [entry.text for entry in reveal.entries]
    assert {(event.kind, event.by) for event in incident.record.events()} >= {
        (EventKind.ACTED, "Ana"),
        (EventKind.DIAGNOSED, "Bo"),
        (EventKind.SEATED, "Cy"),
    }
    shown = cy.debriefing()
    (row,) = shown.rows
    assert (row["seat"], row["action"], row["estimated"]) == ("Ana", str(repair), "30.0 s")
    assert (row["outcome"], row["rating"]) == ("done", "right")
    took_s = float(str(row["took"]).split()[0])
    assert took_s > 0.1, "a broker was started"
    assert str(row["symptom that was gone next"]).startswith("a ")
    assert "Ana: 1 of 1 within the estimate" in shown.note
    for seat in (ana, bo, cy, tom):
        seat.close()
