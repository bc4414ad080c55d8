"""A package is made from runs that are byte for byte what was written, and is sealed itself."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_scorecard as sample
from testbed_drill_session import Stage

from drlib.errors import UsageError
from drlib.runbook.evidence.folder import collect, write
from drlib.runbook.evidence.package import Package
from drlib.runbook.evidence.rules import Scope
from drlib.runs import folder as folders
from drlib.runs.check import Verdict

DRILL, OTHER = "20261121T100000Z-failover-drill-9f31c2", "20261122T100000Z-failover-drill-9f31c3"
SCOPE = Scope(2026, ("LEFT->RIGHT",), "lab", {}, sample.START + 9 * 86_400_000)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drill with a plan and a report, as a run leaves it."""
    folder = tmp_path_factory.mktemp("finished") / DRILL
    folder.mkdir(mode=0o700)
    with Stage(folder).open() as drill:
        drill.finish()
    (folder / "report.html").write_text("<p>report</p>")
    (folder / "approved").write_text("{}")
    folders.seal(folder)
    return folder


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "runs" / DRILL)
    card = sample.scorecard(environment={"flow": "LEFT->RIGHT", "environment": "lab"}, started_ms=0)
    sample.finished_run(tmp_path / "runs" / OTHER, card)
    return tmp_path / "runs"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_collect_verified_runs_have_scenario_and_hashes(runs: Path) -> None:
    made = collect(runs, scope_of(runs))
    first = next(each for each in made.runs if each.run == DRILL)
    assert made.unverified == ()
    assert first.scenario.steps != ()
    assert first.hashes.report == hashlib.sha256(b"<p>report</p>").hexdigest()
    assert first.hashes.manifest == hashlib.sha256((runs / DRILL / "manifest.sha256").read_bytes()).hexdigest()
    assert None not in (first.hashes.plan, first.hashes.journal)


def scope_of(runs: Path) -> Scope:
    """Of the year and flows that the runs have."""
    from drlib.runs.scorecard import Scorecard

    cards = [Scorecard.read(path) for path in sorted(runs.glob("*/scorecard.json"))]
    year = 1970 + cards[0].started_ms // 31_556_952_000
    flows = tuple(sorted({card.environment["flow"] for card in cards}))
    return Scope(year, flows, cards[0].environment.get("environment", "lab"), {}, sample.START * 2)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_collect_one_changed_byte_in_any_file_of_any_run_is_named_and_fails(
    runs: Path, tmp_path: Path, place: str
) -> None:
    before = collect(runs, scope_of(runs))
    scope = scope_of(runs)
    assert before.verdict is not Verdict.FAIL
    tried = 0
    for run in (DRILL, OTHER):
        for name in files(runs / run):
            path = runs / run / name
            data = path.read_bytes()
            if not data:
                continue
            where = {"first": 0, "middle": len(data) // 2, "last": len(data) - 1}[place]
            path.write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])
            made = collect(runs, scope)
            assert made.verdict is Verdict.FAIL, (run, name)
            (found,) = made.unverified
            assert found.run == run
            assert any(name in each or name == "manifest.sha256" for each in found.differences), (name, found)
            assert run not in {each.run for each in made.runs}
            path.write_bytes(data)
            tried += 1
    assert tried > 10
    assert collect(runs, scope) == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda folder: (folder / "report.html").unlink(),
        lambda folder: (folder / "late").write_text("x"),
        lambda folder: folder.rename(folder.with_name("20251121T100000Z-failover-drill-9f31c2")),
        lambda folder: (folder / "manifest.sha256").unlink(),
    ],
    ids=["file removed", "file added", "moved to another year", "manifest removed"],
)
def test_collect_run_that_lost_gained_or_changed_its_name_fails(runs: Path, edit: Callable[[Path], object]) -> None:
    scope = scope_of(runs)
    edit(runs / DRILL)
    assert collect(runs, scope).verdict is Verdict.FAIL


def test_collect_run_that_is_planned_is_not_finished_and_fails_nothing(runs: Path) -> None:
    planned = runs / "20261123T100000Z-failover-drill-9f31c4"
    planned.mkdir(mode=0o700)
    shutil.copy(runs / DRILL / "plan.json", planned)
    made = collect(runs, scope_of(runs))
    assert made.not_finished == (planned.name,)
    assert made.unverified == ()


def test_collect_no_folder_is_unknown(tmp_path: Path) -> None:
    assert collect(tmp_path / "none", SCOPE).verdict is Verdict.UNKNOWN


def test_write_package_is_json_markdown_hashes_and_sealed(runs: Path, tmp_path: Path) -> None:
    made = collect(runs, scope_of(runs))
    out = write(made, tmp_path / "out")
    assert files(out) == ["evidence.json", "evidence.md", "manifest.sha256", "reports.sha256"]
    assert Package.model_validate_json((out / "evidence.json").read_text()) == made
    report = hashlib.sha256((runs / DRILL / "report.html").read_bytes()).hexdigest()
    assert f"{report}  {DRILL}/report.html\n" in (out / "reports.sha256").read_text()
    assert folders.differences(out) == ()
    (out / "evidence.json").write_text((out / "evidence.json").read_text().replace("RIGHT", "WRONG"))
    assert [each.file for each in folders.differences(out)] == ["evidence.json"]
    write(made, out)  # again
    assert folders.differences(out) == ()


def test_write_into_a_folder_with_anything_else_is_refused(runs: Path, tmp_path: Path) -> None:
    made = collect(runs, scope_of(runs))
    with pytest.raises(UsageError, match=r"has 20261121T100000Z-failover-drill-9f31c2"):
        write(made, runs)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write(made, tmp_path / "file")
