"""A drill run step by step: it runs up to the given step, waits there, and is resumed from there."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from testbed_drill_session import Stage

from drlib.drill.plan.plan import Rollback
from drlib.drill.run import approvals, planning
from drlib.drill.run.request import Request
from drlib.drill.session.session import MOST_ROWS, DrillSession
from drlib.drill.step import step_output as details
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import (
    Aborted,
    ApprovalMissing,
    Deviated,
    DrlibError,
    HypothesisFailed,
    LeaseHeld,
    Unreachable,
    UsageError,
)
from drlib.runs import journal
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records, RtoSeconds, Scorecard
from drlib.ui.console.board import ApprovalButtons, LiveBoard


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def plan_hash(stage: Stage) -> str:
    return planning.read(stage.run_dir).hash


def card(stage: Stage) -> Scorecard:
    return Scorecard.read(stage.run_dir / "scorecard.json")


def test_session_until_stops_after_the_step(stage: Stage) -> None:
    with stage.open() as drill:
        assert "file two" in repr(drill.plan())
        assert not stage.done
        drill.hypothesis()
        assert not stage.done
        shown = drill.until("two")
        assert stage.done == ["one", "two"]
        assert list(shown.rows) == [{"file": "two", "records": 1234}]
        assert "files 1" in shown.note
        verdict = drill.finish()
    assert stage.done == ["one", "two", "three"]
    assert verdict.title == "Verdict: pass"
    assert card(stage).verdict is Verdict.PASS
    assert card(stage).environment.items() >= {"one": "done", "two": "done", "three": "done"}.items()
    assert not card(stage).rpo.measured  # no step looks for it


def test_session_step_of_many_rows_shows_the_first_and_says_where_all_are(stage: Stage) -> None:
    """The notebook stays of a size that the report can read."""
    with stage.open() as drill:
        drill.until("one")
        details.write_rows(stage.run_dir, "one", [{"row": n} for n in range(MOST_ROWS)])
        assert "rows" not in drill.until("one").note
        details.write_rows(stage.run_dir, "one", [{"row": n} for n in range(MOST_ROWS + 1)])
        shown = drill.until("one")
        assert len(shown.rows) == MOST_ROWS
        assert shown.note.startswith("the first 1,000 of 1,001 rows: details/one.rows.json has all of them; ")


def test_session_step_shows_moments_as_dates_and_durations_as_numbers(stage: Stage) -> None:
    stage.reports = {"at_ms": 1_795_945_546_831, "took_ms": 831, "last_ms": None}
    with stage.open() as drill:
        note = drill.until("one").note
        assert "at 2026-11-29 09:45:46.831 UTC, took ms 831" in note
        details.write_rows(stage.run_dir, "one", [{"partition": 1, "first ms": 1_795_945_546_831, "lag ms": None}])
        (row,) = drill.until("one").rows
    assert row == {"partition": 1, "first": "2026-11-29 09:45:46.831 UTC", "lag ms": None}


def test_session_whose_loss_is_unknown_is_no_pass(stage: Stage) -> None:
    """As `mirror.drain` reports it of a lost source whose mirror had been stopped before."""
    stage.reports = {"rpo_records": None, "rpo_seconds": 2.0, "rpo_at_least": True, "rpo_why": "no report of t-0"}
    with stage.open() as drill:
        drill.finish()
    assert card(stage).verdict is Verdict.CONDITIONS
    (check,) = (check for check in card(stage).checks if check.verdict is Verdict.CONDITIONS)
    assert check.evidence == "it is unknown, and no objective in records is set; no report of t-0"


def test_session_on_a_file_of_no_lab_says_production_in_plan_and_scorecard(stage: Stage, tmp_path: Path) -> None:
    stage.properties = tmp_path / "mm2.properties"
    stage.properties.write_text("clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\n")
    Request(runbook=tmp_path / "d.yaml", properties=stage.properties).write(stage.run_dir)
    with stage.open() as drill:
        shown = drill.plan()
        assert repr(shown).startswith("PRODUCTION  flow A->B, clusters A and B: real applications move.")
        html = str(shown._repr_mimebundle_()["text/html"])
        assert html.index("<strong>PRODUCTION</strong>") < html.index("<table>")
        drill.finish()
    kept = card(stage).environment
    assert (kept["environment"], kept["changes"], kept["mode"]) == ("production", "real applications move", "planned")


def test_session_cell_run_twice_repeats_nothing(stage: Stage) -> None:
    with stage.open() as drill:
        first, again = drill.until("one"), drill.until("one")
        assert repr(first) == repr(again)
        drill.finish()
        assert list(drill.until("three").rows) == [{"file": "three", "records": 1234}]
    assert stage.done == ["one", "two", "three"]


def test_session_left_unfinished_is_resumed_by_another_kernel(stage: Stage) -> None:
    with stage.open() as drill:
        drill.until("one")
    with stage.open() as drill:
        assert list(drill.until("one").rows) == [{"file": "one", "records": 1234}]
        assert stage.done == ["one"]
        drill.finish()
    assert stage.done == ["one", "two", "three"]
    with stage.open() as drill:  # and one that is over is shown
        assert drill.finish().title == "Verdict: pass"
    assert stage.done == ["one", "two", "three"]


def test_session_error_is_raised_and_in_the_scorecard(stage: Stage) -> None:
    stage.fails = "two"
    drill = stage.open()
    with pytest.raises(Deviated, match="was made to fail"):
        drill.until("three")
    with pytest.raises(Deviated, match="was made to fail"):
        drill.finish()
    drill.close()
    assert card(stage).verdict is Verdict.FAIL
    assert "was made to fail" in next(c.evidence for c in card(stage).checks if c.name == "the drill ran to its end")
    with pytest.raises(Deviated), stage.open() as again:  # taken up, it is tried again
        again.finish()


@pytest.mark.parametrize("refusal", [Unreachable, LeaseHeld])
def test_session_refused_before_its_start_begins_when_the_cell_is_run_again(
    stage: Stage, refusal: type[DrlibError]
) -> None:
    refusals = [refusal("the lease", "it was refused", "Try again.")]

    @contextlib.contextmanager
    def lease() -> Iterator[None]:
        if refusals:
            raise refusals.pop()
        yield

    with stage.open(lease=lease) as drill:
        with pytest.raises(refusal, match="it was refused"):
            drill.until("one")
        assert stage.done == []
        drill.until("one")
        assert stage.done == ["one"]
        drill.finish()
    assert card(stage).verdict is Verdict.PASS


def test_session_hypothesis_not_holding_ends_it_before_any_step(stage: Stage) -> None:
    stage.holds = False
    with stage.open() as drill, pytest.raises(HypothesisFailed, match="all is well"):
        drill.hypothesis()
    assert stage.done == []
    assert card(stage).verdict is Verdict.FAIL


@pytest.mark.parametrize("how", ["button", "interrupt"])
def test_session_abort_in_a_step_rolls_back(stage: Stage, how: str, request: pytest.FixtureRequest) -> None:
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell begins what it sends back with it ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    stage.waits, stage.rollback = "two", Rollback.DEFAULT
    drill = stage.open()
    drill.until("one")

    def later() -> None:
        while "two" not in stage.done:
            time.sleep(0.01)
        if how == "button":
            drill.abort()
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=later)
    thread.start()
    began = time.monotonic()
    with pytest.raises(Aborted):
        drill.until("two")
    assert time.monotonic() - began < 5  # the step would have taken 30
    thread.join()
    drill.close()
    assert not (stage.run_dir / "one.txt").exists()


def test_session_abort_between_cells_rolls_back(stage: Stage) -> None:
    stage.rollback = Rollback.DEFAULT
    drill = stage.open()
    drill.until("two")
    drill.abort()
    with pytest.raises(Aborted):
        drill.until("three")
    drill.close()
    assert stage.done == ["one", "two"]
    assert not (stage.run_dir / "one.txt").exists()


def test_approval_missing_pauses_the_run(stage: Stage) -> None:
    stage.approval = "two"
    drill = stage.open()
    with pytest.raises(ApprovalMissing, match="step two"):
        drill.until("three")
    (stage.run_dir / "approved").write_text(approvals.line("two", plan_hash(stage)) + "\n")
    assert drill.until("three").title == "Step three"
    drill.close()
    assert stage.done == ["one", "two", "three"]


def test_session_unknown_step_is_refused_or_skipped(stage: Stage) -> None:
    with stage.open() as drill:
        with pytest.raises(UsageError, match="one, two, three"):
            drill.until("four")
        assert "no part of d" in drill.until("four", optional=True).title
    assert stage.done == []


def test_scorecard_parts_are_joined_in_step_order() -> None:
    one = ScorecardPart(records=Records(lost=None), checks=(Check(name="a", verdict=Verdict.PASS, evidence="x"),))
    two = ScorecardPart(records=Records(lost=2), checks=(Check(name="b", verdict=Verdict.FAIL, evidence="y"),))
    whole = details.joined([one, two, ScorecardPart(rto_seconds=RtoSeconds(total=3.0), environment={"k": "v"})])
    assert [check.name for check in whole.checks] == ["a", "b"]
    assert whole.records == Records(lost=2)
    assert (whole.rto_seconds, whole.environment) == (RtoSeconds(total=3.0), {"k": "v"})


def test_step_output_is_private_and_written_whole(tmp_path: Path) -> None:
    details.write_rows(tmp_path, "s", [{"a": 1}])
    (path,) = (tmp_path / "details").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == [{"a": 1}]
    assert details.read_rows(tmp_path, "other") == ()


def paused(stage: Stage) -> tuple[DrillSession, LiveBoard]:
    """A drill whose step two waits for approval, with a board on an open page of a front end without subshells."""
    seconds = count().__next__  # a board waits a few of them for a subshell
    stage.approval, stage.board = "two", LiveBoard(seconds, attended=lambda: True, sleep=lambda _: None)
    drill = stage.open()
    drill.board()
    assert stage.board.buttons is not None
    assert stage.board.buttons.box.layout.display == "none"
    with pytest.raises(ApprovalMissing):
        drill.until("two")
    assert stage.board.buttons.box.layout.display == "flex"
    return drill, stage.board


def test_board_click_approves_the_waiting_step_in_the_typed_name(stage: Stage) -> None:
    drill, board = paused(stage)
    buttons = board.buttons
    assert buttons is not None
    assert buttons.approve.description == "Approve two"
    buttons.name.value = "  "
    buttons.approve.click()
    assert "Say who" in buttons.said.value
    assert not (stage.run_dir / "approved").exists()
    buttons.name.value = "Ada  Lovelace"
    buttons.approve.click()
    buttons.approve.click()  # once is enough
    assert (stage.run_dir / "approved").read_text() == f"two of {plan_hash(stage)} by Ada Lovelace\n"
    assert buttons.said.value == "approved by Ada Lovelace: run the cell again"
    assert stage.done == ["one"]
    drill.until("two")
    assert buttons.box.layout.display == "none"
    drill.finish()
    assert stage.done == ["one", "two", "three"]
    (noted,) = [line for line in journal.read(stage.run_dir / "journal.jsonl") if line.event == "approved"]
    assert (noted.data["step"], noted.data["by"]) == ("two", "Ada Lovelace")


def test_board_click_aborts_the_waiting_drill_and_rolls_back(stage: Stage) -> None:
    stage.rollback = Rollback.DEFAULT
    drill, board = paused(stage)
    assert board.buttons is not None
    assert (stage.run_dir / "one.txt").exists()
    board.buttons.name.value = "Ada"
    board.buttons.abort.click()
    assert not (stage.run_dir / "one.txt").exists()
    assert board.buttons.box.layout.display == "none"
    with pytest.raises(Aborted, match="Ada, by the board's button"):
        drill.until("two")
    drill.close()
    assert stage.done == ["one"]
    assert card(stage).verdict is not Verdict.PASS


def test_board_approval_of_a_step_that_does_not_wait_is_refused(stage: Stage) -> None:
    drill, _ = paused(stage)
    with pytest.raises(UsageError, match="does not wait"):
        drill.approve("three", "Ada")
    drill.abort_paused("Ada")
    with pytest.raises(UsageError, match="does not wait"):
        drill.approve("two", "Ada")
    assert stage.done == ["one"]
    drill.close()


class BoardUser:
    """A user at the board: does `then` on a thread as soon as a cell waits for an approval."""

    def __init__(
        self, stage: Stage, then: Callable[[ApprovalButtons], None], *, present: Callable[[], bool] = lambda: True
    ) -> None:
        stage.approval = "two"
        stage.board = self.board = LiveBoard(attended=lambda: True, answered=lambda: True, present=present)
        self._then = then
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._wait)

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while self.board.buttons is None or "the cell is waiting" not in self.board.buttons.said.value:
            if time.monotonic() > end:
                return
            time.sleep(0.01)
        self.said.append(self.board.buttons.approve.description)
        self._then(self.board.buttons)

    def __enter__(self) -> BoardUser:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        assert self.said == ["Approve two"], "the cell never waited"


def click(buttons: ApprovalButtons) -> None:
    buttons.name.value = "Ada"
    buttons.approve.click()


def test_waiting_cell_continues_after_the_button(stage: Stage) -> None:
    with BoardUser(stage, click) as ada:
        drill = stage.open()
        drill.board()
        assert list(drill.until("two").rows) == [{"file": "two", "records": 1234}]
    assert ada.board.buttons is not None
    assert ada.board.buttons.box.layout.display == "none"
    drill.finish()
    assert stage.done == ["one", "two", "three"]
    (noted,) = [line for line in journal.read(stage.run_dir / "journal.jsonl") if line.event == "approved"]
    assert noted.data["by"] == "Ada"


def test_waiting_cell_continues_after_the_line_in_the_file(stage: Stage) -> None:
    def write_approval(_: ApprovalButtons) -> None:
        (stage.run_dir / "approved").write_text(f"two of {plan_hash(stage)} by Bob\n")

    with BoardUser(stage, write_approval):
        drill = stage.open()
        drill.board()
        drill.finish()
    assert stage.done == ["one", "two", "three"]


def test_waiting_cell_ends_when_the_drill_is_aborted(stage: Stage) -> None:
    stage.rollback = Rollback.DEFAULT
    with BoardUser(stage, lambda buttons: buttons.abort.click()):
        drill = stage.open()
        drill.board()
        with pytest.raises(Aborted, match="by the board's button"):
            drill.until("three")
    drill.close()
    assert stage.done == ["one"]
    assert not (stage.run_dir / "one.txt").exists()


def test_waiting_cell_interrupted_leaves_the_run_paused(stage: Stage, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(_: ApprovalButtons) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with BoardUser(stage, interrupt) as ada:
        drill = stage.open()
        drill.board()
        with pytest.raises(ApprovalMissing, match="step two"):
            drill.until("three")
    assert ada.board.buttons is not None
    assert ada.board.buttons.said.value == "then run the cell again"
    assert (stage.run_dir / "one.txt").exists()
    click(ada.board.buttons)
    assert ada.board.buttons.said.value == "approved by Ada: run the cell again"
    assert stage.done == ["one"]
    drill.until("three")
    drill.close()
    assert stage.done == ["one", "two", "three"]


def test_waiting_cell_ends_when_no_page_is_open(stage: Stage) -> None:
    gone = threading.Event()
    with BoardUser(stage, lambda _: gone.set(), present=lambda: not gone.is_set()):
        drill = stage.open()
        drill.board()
        with pytest.raises(ApprovalMissing, match="step two"):
            drill.until("three")
    drill.close()
    assert stage.done == ["one"]


def test_waiting_cell_lets_the_run_be_resumed_elsewhere(stage: Stage) -> None:
    def elsewhere(_: ApprovalButtons) -> None:
        other = Stage(stage.run_dir, approval="two", done=stage.done)
        with other.open(approved=frozenset({"two"})) as drill:
            drill.finish()

    with BoardUser(stage, elsewhere):
        drill = stage.open()
        drill.board()
        assert list(drill.until("three").rows) == [{"file": "three", "records": 1234}]
    drill.close()
    assert stage.done == ["one", "two", "three"]
