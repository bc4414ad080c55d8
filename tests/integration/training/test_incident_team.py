"""A team at one incident on real clusters: a trainer, two acting seats and a read-only one, until the debriefing."""

from __future__ import annotations

import json
import subprocess
import sys
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


SEAT = """
import json, sys, drlib
seat = drlib.open_incident(sys.argv[1], seat=sys.argv[2], role=sys.argv[3])
print(json.dumps("joined"), flush=True)
for line in sys.stdin:
    name, arguments, named = json.loads(line)
    try:
        said = repr(getattr(seat, name)(*arguments, **named))
    except drlib.DrlibError as error:
        said = f"refused: {error}"
    print(json.dumps(said), flush=True)
seat.close()
"""


class SeatProcess:
    """A seat in a process of its own, as in another kernel."""

    def __init__(self, folder: Path, name: str, role: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SEAT, str(folder), name, role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.joined = self.answer()

    def ask(self, name: str, *arguments: object, **named: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, arguments, named]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """What it says next; what it complained of if it has ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        return str(json.loads(line)) if line else self.process.stderr.read()

    def call(self, name: str, *arguments: object, **named: object) -> str:
        self.ask(name, *arguments, **named)
        return self.answer()

    def end(self) -> int:
        """Close its input, so that it leaves the seat and ends."""
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.mark.long
@pytest.mark.timeout(400)
def test_team_in_processes_of_their_own_plays_one_incident_and_gets_one_debriefing(start: Start) -> None:
    incident = start("broker-killed")
    folder = incident.folder
    tom = SeatProcess(folder, "Tom", "trainer")
    ana, bo = (SeatProcess(folder, name, "acting") for name in ("Ana", "Bo"))
    cy = SeatProcess(folder, "Cy", "read-only")
    assert [seat.joined for seat in (tom, ana, bo, cy)] == ["joined"] * 4
    again = SeatProcess(folder, "Ana", "acting")
    assert "Ana" in again.joined
    assert again.end() != 0, "a seat belongs to one process"
    wait_for_symptoms(incident, Symptom.SITE_SILENT)
    assert cy.call("act", "acknowledge").startswith("refused: ")
    ana.call("act", "acknowledge")
    bo.call("diagnose", "broker-killed")
    (repair,) = incident.record.injected_causes()[0].repair
    ana.ask("act", str(repair), estimate_s=30)
    wait_for("the move has begun", lambda: "begun" in [line.event for line in incident.record.lines()], 60)
    said = bo.call("act", "restart-mirror", estimate_s=10)
    done = ana.answer()
    assert str(repair) in done
    if said.startswith("refused"):  # it asked before the move had its answer
        assert f"Ana makes {repair} since" in said
    ana.process.kill()
    ana.process.communicate(timeout=60)  # closes its pipes as well
    successor = SeatProcess(folder, "Ana", "acting")
    assert successor.joined == "joined", "the seat of a process that was killed is free"
    wait_for("the incident has recovered", lambda: incident.unresolved() == (), 90)
    assert "refused" in successor.call("finish")
    assert "of 100 points" in tom.call("finish")
    page, text = (folder / "debriefing.html").read_text(), (folder / "debriefing.md").read_text()
    row = next(line for line in text.splitlines() if f"`{repair}`" in line and "| `Ana` |" in line)
    cells = [cell.strip(" `") for cell in row.split("|")[1:-1]]
    assert (cells[2], cells[4], cells[7], cells[8]) == ("Ana", "30.0 s", "done", "right")
    assert float(cells[5].split()[0]) > 0.1, "a broker was started"
    assert "Tom, trainer; Ana, acting; Bo, acting; Cy, read-only" in page
    assert "What an earlier right decision would have avoided" in page
    assert f"The first right move, {repair}, " in page
    assert str(folder / "debriefing.html") in cy.call("debriefing")
    for seat in (successor, bo, cy, tom):
        assert seat.end() == 0
