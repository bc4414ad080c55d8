"""Which runs moved applications and which of them counts, and what people are shown of those who stayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import drlib

from drlib.config.settings import load_mirror_settings
from drlib.drill.inventory.kept import KeptInventory, keep
from drlib.drill.inventory.left_behind import Moved, Stand
from drlib.drill.inventory.rules import Application, Inventory, Kind, Way
from drlib.drill.plan.plan import Call, Drill, Mode, Plan, Step, StepPlan
from drlib.drill.plan.progress import Noted
from drlib.drill.run import planning
from drlib.drill.run.request import ClusterTarget, Request
from drlib.drill.session.left_behind import (
    SHOWN,
    LeftBehind,
    Move,
    headline,
    lines,
    look,
    moved_ms,
    newest_moves,
    of_run,
)
from drlib.errors import ReadinessError, UsageError
from drlib.model import Flow
from drlib.runs.journal import FIRST, JOURNAL, DrillJournal, Line

THERE = Flow("paris", "lyon")
DRILL = Drill(
    name="d",
    flow=THERE,
    mode=Mode.PLANNED,
    steps=tuple(
        Step(name=name, title=name, action=Call(action))
        for name, action in (("inventory", "inventory.take"), ("move", "pointer.move"), ("verify", "groups.verify"))
    ),
)
ROW = Application("paris", Kind.GROUP, "billing", "", 1, ("b-1",), ("10.0.0.1",), (), None, Way.BY_HAND, "how")
KEPT = KeptInventory("paris", "lyon", "r1", 1000, Inventory((ROW,)))


def line(event: Noted, step: str, second: int, **data: str) -> Line:
    return Line(0, f"1970-01-01T00:00:{second:02}+00:00", event.value, {"step": step, **data}, FIRST, FIRST)


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        ([], None),
        ([line(Noted.STEP_SUCCEEDED, "inventory", 1), line(Noted.STEP_STARTED, "move", 2)], None),
        ([line(Noted.STEP_SUCCEEDED, "move", 3), line(Noted.STEP_SUCCEEDED, "verify", 9)], 3000),
        ([line(Noted.STEP_SUCCEEDED, "move", 3), line(Noted.UNDO_SUCCEEDED, "move", 5)], None),
        ([line(Noted.STEP_SUCCEEDED, "move", 3, left="it names oslo, which is no cluster of paris->lyon")], None),
        ([line(Noted.STEP_SUCCEEDED, "move", 3), line(Noted.UNDO_FAILED, "move", 5)], 3000),
    ],
)
def test_run_has_moved_once_a_step_did_that_was_not_undone(journal: list[Line], expected: int | None) -> None:
    assert moved_ms(DRILL, journal) == expected


def run(folder: Path, kept: KeptInventory | None, *done: str, file: str = "/etc/mm2.properties") -> Path:
    folder.mkdir(parents=True)
    planning.write(Plan(DRILL, tuple(StepPlan(step.name) for step in DRILL.steps)), folder)
    Request(runbook=Path("r.yaml"), properties=Path(file)).write(folder)
    if kept is not None:
        keep(folder, replace(kept, run=folder.name))
    journal = DrillJournal(folder / JOURNAL)
    for step in done:
        journal.write(Noted.STEP_SUCCEEDED, step=step)
    journal.close()
    return folder


def test_newest_move_between_two_clusters_counts_whichever_way_it_went(tmp_path: Path) -> None:
    place = ClusterTarget(properties=Path("/etc/mm2.properties"))
    run(tmp_path / "20260101T000000Z-d-000001", KEPT, "move")
    run(tmp_path / "20260102T000000Z-d-000001", replace(KEPT, source="lyon", target="paris"), "move")
    run(tmp_path / "20260103T000000Z-d-000001", KEPT, "inventory")  # it has not moved anything
    run(tmp_path / "20260104T000000Z-d-000001", None, "move")
    run(tmp_path / "20260105T000000Z-d-000001", KEPT, "move", file="/etc/other.properties")
    (found,) = newest_moves(tmp_path, [THERE, THERE.reverse], place)
    assert (found.folder.name, found.kept.flow) == ("20260102T000000Z-d-000001", THERE.reverse)
    assert newest_moves(tmp_path, [Flow("paris", "rome")], place) == ()
    (of_lab,) = newest_moves(tmp_path, [THERE], ClusterTarget(properties=Path("/etc/other.properties")))
    assert of_lab.folder.name == "20260105T000000Z-d-000001"


def test_move_whose_inventory_cannot_be_read_is_named_and_no_older_one_takes_its_place(tmp_path: Path) -> None:
    place = ClusterTarget(properties=Path("/etc/mm2.properties"))
    run(tmp_path / "20260101T000000Z-d-000001", KEPT, "move")
    newest = run(tmp_path / "20260102T000000Z-d-000001", replace(KEPT, source="lyon", target="paris"), "move")
    next(newest.glob("details/inventory.*")).write_text("{")
    (found,) = newest_moves(tmp_path, [THERE], place)
    assert (found.folder, found.kept.flow, found.kept.movers) == (newest, THERE.reverse, ())
    behind = LeftBehind(found, (), Inventory(()))
    (why,) = behind.unknown
    assert why.startswith(f"the inventory of run {newest.name} cannot be read: it is not JSON")
    heading, said, _ = lines([behind])
    assert heading.startswith("NOT KNOWN WHO IS LEFT BEHIND on lyon since the move to paris")
    assert why in said


def test_run_is_found_by_name_and_refused_where_it_says_nothing(tmp_path: Path) -> None:
    run(tmp_path / "moved", KEPT, "move")
    run(tmp_path / "planned", KEPT, "inventory")
    run(tmp_path / "bare", None, "move")
    assert of_run(tmp_path, "moved").kept.run == "moved"
    assert of_run(Path("elsewhere"), str(tmp_path / "moved")).kept.run == "moved"
    for name, why in (("planned", "has not moved"), ("bare", "has no inventory"), ("none", "there is no run none")):
        with pytest.raises(UsageError, match=why):
            of_run(tmp_path, name)


def found(*moved: Moved) -> LeftBehind:
    return LeftBehind(Move(Path("runs/r1"), KEPT, 2000), moved, Inventory(()))


def test_those_left_behind_are_named_with_client_and_host_until_everybody_is_gone() -> None:
    there = Moved(ROW, Stand.THERE, "it has 1 member")
    either = Moved(replace(ROW, name="app", way=Way.EITHER), Stand.NEW, "it has 1 member")
    unknown = Moved(replace(ROW, name="x"), Stand.NOT_KNOWN, "paris does not answer: refused")
    gone = Moved(replace(ROW, name="old"), Stand.GONE, "the group does not exist")
    said = "\n".join(lines([found(there, either, unknown, gone)]))
    assert "LEFT BEHIND on paris since the move to lyon" in said
    assert "billing (b-1, 10.0.0.1), consumer group: it has 1 member; it moves by hand" in said
    assert "it moves by pointer or address" in said
    assert "not known of 1 applications: paris does not answer: refused" in said
    assert "drlib inventory FILE --left-behind runs/r1" in said
    assert "old" not in said
    assert lines([found(gone)]) == ()
    assert headline(found(gone)).startswith("no application is left on paris: 1 gone, since the move to lyon")
    many = [replace(there, application=replace(ROW, name=f"g{n}")) for n in range(SHOWN + 3)]
    assert "  and 3 more" in lines([found(*many)])


def test_cluster_that_is_still_silent_is_not_said_to_have_no_application_where_nothing_was_known_of_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mm2.properties"
    servers = "paris.bootstrap.servers = 127.0.0.1:1\nlyon.bootstrap.servers = 127.0.0.1:2\n"
    file.write_text(f"clusters = paris, lyon\n{servers}paris->lyon.enabled = true\n")
    dead = replace(KEPT, inventory=Inventory((), silent={"paris": "refused"}))
    run(tmp_path / "runs" / "moved", dead, "move", file=str(file))
    behind = look(load_mirror_settings(file), of_run(tmp_path / "runs", "moved"), seconds=2.0)
    (why,) = behind.unknown
    assert why.startswith("paris does not answer: ")
    assert headline(behind).startswith(
        "not known whether an application is left on paris: no application is known; paris"
    )
    heading, unknown, command = lines([behind])
    assert heading.startswith("NOT KNOWN WHO IS LEFT BEHIND on paris since the move to lyon")
    assert (unknown, "--left-behind" in command) == (f"  not known who else is there: {why}", True)
    asked = ("inventory", str(file), "--left-behind", "moved", "--runs-dir", str(tmp_path / "runs"))
    shown, as_json = drlib(*asked), drlib(*asked, "--json")
    assert (shown.returncode, as_json.returncode) == (ReadinessError.exit_code, ReadinessError.exit_code)
    assert "not known: paris does not answer" in shown.stdout
    assert json.loads(as_json.stdout)["unknown"][0].startswith("paris does not answer: ")


def test_what_has_no_answer_is_said_beside_those_who_are_left() -> None:
    there = Moved(ROW, Stand.THERE, "it has 1 member")
    behind = replace(found(there), now=Inventory((), {"paris": ("producers: refused",)}))
    said = lines([behind])
    assert said[0].startswith("LEFT BEHIND on paris")
    assert "  not known who else is there: producers: refused" in said
