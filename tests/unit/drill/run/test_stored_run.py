"""What a run's folder says is believed where its parts agree: no edited, cut, swapped, foreign or special file passes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_scorecard as sample
from testbed_drill_session import Stage

from drlib.drill.run import stored_run
from drlib.drill.run.stored_run import Evidence
from drlib.runs import folder as folders
from drlib.runs.check import Check, Verdict
from drlib.runs.folder import MANIFEST
from drlib.runs.journal import DrillJournal
from drlib.runs.lock import alone
from drlib.runs.scorecard import Kind, Scorecard

NAME = "20261121T100000Z-failover-drill-9f31c2"
Edit = Callable[[Path], object]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drill that passed, as a notebook leaves it."""
    folder = tmp_path_factory.mktemp("finished") / NAME
    folder.mkdir(mode=0o700)
    with Stage(folder).open() as drill:
        drill.finish()
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs" / NAME))


def edit_card(folder: Path, **changes: object) -> None:
    card = json.loads((folder / "scorecard.json").read_text())
    (folder / "scorecard.json").write_text(json.dumps({**card, **changes}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def sealed(edit: Edit) -> Edit:
    """`edit`, and a manifest that fits."""

    def both(folder: Path) -> None:
        edit(folder)
        folders.seal(folder)

    return both


def two_lines_swapped(folder: Path) -> None:
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))


def last_line_lost(folder: Path) -> None:
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(lines[:-1]))


def other_journal(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()
    book = DrillJournal(folder / "journal.jsonl")
    book.write("run-started", plan="0" * 64)
    book.write("run-ended", detail="passed")
    book.close()


def card_linked(folder: Path) -> None:
    (folder / "scorecard.json").rename(folder.parent / "card")
    (folder / "scorecard.json").symlink_to("../card")


def hashes_swapped(folder: Path) -> None:
    lines = [line.split("  ") for line in (folder / MANIFEST).read_text().splitlines()]
    lines[0][0], lines[1][0] = lines[1][0], lines[0][0]
    (folder / MANIFEST).write_text("".join(f"{'  '.join(line)}\n" for line in lines))


CONTRADICTORY: dict[str, tuple[Edit, str]] = {
    "verdict edited": (lambda f: edit_card(f, verdict="fail"), "scorecard.json: it is not what"),
    "scorecard cut": (lambda f: cut(f / "scorecard.json"), "scorecard.json: it is not what"),
    "scorecard emptied": (lambda f: (f / "scorecard.json").write_text(""), "scorecard.json: it is not what"),
    "evidence edited": (lambda f: (f / "one.txt").write_text("y"), "one.txt: it is not what"),
    "evidence with its size kept": (lambda f: (f / "three.txt").write_text("z"), "three.txt: it is not what"),
    "two files swapped": (hashes_swapped, "it is not what"),
    "file added": (lambda f: (f / "late.txt").write_text("x"), "late.txt: it is not in manifest.sha256"),
    "hidden file added": (lambda f: (f / ".late").write_text("x"), ".late: it is not in manifest.sha256"),
    "link added": (lambda f: (f / "late").symlink_to("/etc/passwd"), "late: it is not a regular file"),
    "pipe added": (lambda f: os.mkfifo(f / "late"), "late: it is not a regular file"),
    "manifest cut": (lambda f: cut(f / MANIFEST), "was not written by drlib"),
    "manifest emptied": (lambda f: (f / MANIFEST).write_text(""), "it is not in manifest.sha256"),
    "manifest with a line twice": (
        lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text() * 2),
        "was not written by drlib",
    ),
    "manifest is a link": (lambda f: replaced(f / MANIFEST, lambda p: p.symlink_to("/etc/passwd")), "symbolic link"),
    "scorecard is a link to its copy": (card_linked, "symbolic link"),
    "scorecard is a dangling link": (
        lambda f: replaced(f / "scorecard.json", lambda p: p.symlink_to("nowhere")),
        "symbolic link",
    ),
    "scorecard is a link to itself": (
        lambda f: replaced(f / "scorecard.json", lambda p: p.symlink_to(p.name)),
        "symbolic link",
    ),
    "scorecard is a pipe": (lambda f: replaced(f / "scorecard.json", os.mkfifo), "not a regular file"),
    "scorecard is a folder": (lambda f: replaced(f / "scorecard.json", Path.mkdir), "regular file"),
    "scorecard is huge": (lambda f: os.truncate(f / "scorecard.json", 1 << 40), "larger than"),
    "evidence is huge": (lambda f: os.truncate(f / "one.txt", 1 << 40), "larger than"),
    "evidence is a pipe": (lambda f: replaced(f / "one.txt", os.mkfifo), "one.txt: it is not a regular file"),
    "sealed: verdict against a check": (
        sealed(lambda f: edit_card(f, checks=[{"name": "all", "verdict": "fail", "evidence": "no"}])),
        "its verdict is pass, and 'all' did not pass",
    ),
    "sealed: nothing checked": (sealed(lambda f: edit_card(f, checks=[])), "nothing was checked"),
    "sealed: failed without a failure": (sealed(lambda f: edit_card(f, verdict="fail")), "no check failed"),
    "sealed: another run's scorecard": (sealed(lambda f: edit_card(f, run_id="other")), "it is of run other"),
    "sealed: a later date": (sealed(lambda f: edit_card(f, finished_ms=1 << 42)), "its times are not those"),
    "sealed: another plan": (
        sealed(lambda f: edit_card(f, environment={"plan": "0" * 64})),
        "it is of plan 000000000000",
    ),
    "sealed: no scorecard at all": (sealed(lambda f: (f / "scorecard.json").write_text("[]")), "it is no scorecard"),
    "sealed: journal's lines swapped": (sealed(two_lines_swapped), "line 2 breaks the chain"),
    "sealed: journal's end lost": (sealed(last_line_lost), "the run did not end"),
    "sealed: another journal": (sealed(other_journal), "the plan of journal.jsonl is not its plan"),
    "sealed: plan edited": (
        sealed(lambda f: (f / "plan.json").write_text((f / "plan.json").read_text().replace("Step one", "Step 1"))),
        "plan.json: its hash does not match",
    ),
    "others may write": (lambda f: f.chmod(0o777), "other users may write to it"),
}
INCOMPLETE: dict[str, tuple[Edit, str]] = {
    "no manifest": (lambda f: (f / MANIFEST).unlink(), "manifest.sha256: it is missing"),
    "no scorecard": (lambda f: (f / "scorecard.json").unlink(), "scorecard.json: it is missing"),
    "no evidence": (lambda f: (f / "two.txt").unlink(), "two.txt: it is missing"),
    "sealed: no journal": (sealed(lambda f: (f / "journal.jsonl").unlink()), "journal.jsonl: it is missing"),
}


def test_stored_run_as_it_was_left_is_verified(run: Path) -> None:
    stored = stored_run.read(run)
    assert (stored.evidence, stored.differences, stored.why) == (Evidence.VERIFIED, (), "")
    assert stored.scorecard == Scorecard.read(run / "scorecard.json")
    assert stored.verdict is Verdict.PASS


@pytest.mark.parametrize("case", CONTRADICTORY)
def test_stored_run_that_contradicts_itself_is_no_pass_and_says_where(run: Path, case: str) -> None:
    edit, why = CONTRADICTORY[case]
    edit(run)
    stored = stored_run.read(run)
    assert stored.evidence is Evidence.CONTRADICTORY
    assert stored.scorecard is None
    assert stored.verdict is Verdict.UNKNOWN
    assert why in " ".join(map(str, stored.differences))


@pytest.mark.parametrize("case", INCOMPLETE)
def test_stored_run_with_a_part_missing_is_no_pass_and_names_it(run: Path, case: str) -> None:
    edit, why = INCOMPLETE[case]
    edit(run)
    stored = stored_run.read(run)
    assert stored.evidence is Evidence.INCOMPLETE
    assert stored.verdict is Verdict.UNKNOWN
    assert why in " ".join(map(str, stored.differences))


def test_stored_run_under_another_name_is_not_that_run(run: Path) -> None:
    stored = stored_run.read(run.rename(run.with_name(NAME.replace("2026", "2027"))))
    assert stored.evidence is Evidence.CONTRADICTORY
    assert f"it is of run {NAME}" in stored.why


def test_stored_run_requests_of_people_are_no_evidence(run: Path) -> None:
    (run / "approved").write_text("one\n")
    (run / "abort").write_text("me\n")
    assert stored_run.read(run).evidence is Evidence.VERIFIED


def test_stored_run_planned_or_running_is_pending(run: Path) -> None:
    with alone(run, ".executing", "", ""):
        assert stored_run.read(run).why.endswith("a process runs it now")
    for path in (path for path in run.rglob("*") if path.is_file() and path.name != "plan.json"):
        path.unlink()
    assert stored_run.read(run).why == f"pending: {NAME}: planned, not run"
    (run / "journal.jsonl").touch()
    assert stored_run.read(run).why == f"pending: {NAME}: it was not finished"


def test_stored_run_of_an_analysis_needs_no_journal_and_a_drill_does(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir(mode=0o700)
    checks = (Check(name="equal", verdict=Verdict.PASS, evidence="all"),)
    card = sample.scorecard(run_id=NAME, kind=Kind.ANALYSIS, checks=checks, verdict=Verdict.PASS)
    folders.conclude(folder, card)
    assert stored_run.read(folder).scorecard == card
    folders.conclude(folder, card.model_copy(update={"kind": Kind.DRILL}))
    assert stored_run.read(folder).evidence is Evidence.INCOMPLETE


def test_conclude_leaves_a_folder_of_the_user_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    before = (tmp_path / "mine").stat().st_mode
    folders.conclude(tmp_path, sample.scorecard())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "scorecard.json"]
    assert (tmp_path / "mine").stat().st_mode == before


def test_session_shown_again_does_not_seal_what_was_edited_since(run: Path) -> None:
    (run / "one.txt").write_text("y")
    with Stage(run).open() as drill:
        drill.finish()
    assert stored_run.read(run).evidence is Evidence.CONTRADICTORY


def test_session_resumed_has_no_manifest_until_it_ends(tmp_path: Path) -> None:
    stage = Stage(tmp_path, approval="two")
    with stage.open() as drill, pytest.raises(Exception, match="waits for its approval"):
        drill.finish()
    assert (tmp_path / MANIFEST).exists()
    stage.waits = "three"
    with stage.open(approved=frozenset({"two"})) as drill:
        drill.until("two")
        assert not (tmp_path / MANIFEST).exists()
