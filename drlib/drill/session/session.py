"""A drill run step by step, as a notebook does: the run continues up to the step it was given, and waits there.

Rules: the run has a thread of its own, so that the kernel stays free for a button and an interrupt; it holds lease and
journal from the first thing done to the last. What was done is not done again: a cell that is run twice, and a run that is
resumed after its kernel died, show what the journal and the kept details say. An interrupt while it waits aborts the run,
which then rolls back by its strategy. `close` undoes nothing: the run can be resumed. However a run ends,
`scorecard.json` is written from the journal and what the steps kept.
A missing approval is a pause: the run releases lease and journal, and any permitted process can resume it. The cell
waits for the approval where a page with the board is open, and resumes the run; an interrupt, or the end of the
last page, ends that wait and leaves the pause. Elsewhere (papermill) it raises at once.
Not for: making a drill from a file (`drlib.runbook.open_drill`), and what is done (`runner`).
Longer than most modules: it is all that a cell may call.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Final, Protocol

from drlib import formats
from drlib.closing import Closing
from drlib.drill.plan import shown
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Plan, Step
from drlib.drill.plan.progress import Noted
from drlib.drill.plan.supersede import Beginning
from drlib.drill.plan.ways_on import WaysOn
from drlib.drill.run import approvals, request
from drlib.drill.run import outcome as endings
from drlib.drill.run.lease import Lease
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.runner import FINISH, HYPOTHESIS, Runner, RunOver
from drlib.drill.session import scorecard as session_score
from drlib.drill.session import superseded_run
from drlib.drill.session.board import BoardState, FlowWatch, Waits, steps_of, waits_of
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Action, Probe
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed import sampler
from drlib.errors import Aborted, ApprovalMissing, DrlibError, LeaseHeld, Unreachable, UsageError
from drlib.lab.environment import environment_at
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.folder import MANIFEST
from drlib.runs.journal import JOURNAL, Line, Scalar
from drlib.runs.table import Table, verdict_table

MOST_ROWS: Final = 1000  # of a step, in the notebook, which the report reads
_LOOK_S: Final = 0.1
_MOMENT_MS: Final = 10**12  # in 2001: no duration is as long
Leased = Callable[[], AbstractContextManager[Lease | None]]


class _Left(BaseException):
    """The session was closed while the run waited: it stays where it is, to be resumed."""


class Board(Protocol):
    """Who draws it."""

    def open(self, state: BoardState, session: "DrillSession") -> None:
        """Show it here, from now on."""

    def update(self, state: Callable[[], BoardState]) -> None:
        """Redraw it, unless that was done a moment ago; `state` is asked for only then."""

    def redraw(self, state: BoardState) -> None:
        """Redraw it, whenever that was done last."""

    def answers(self) -> bool:
        """Is a page open whose buttons can be pressed while a cell runs?"""


class DrillSession(Closing):
    """One run of `plan` at `workplace`. A context manager; `close` is safe to repeat."""

    def __init__(
        self,
        plan: Plan,
        workplace: DrillContext,
        actions: Mapping[str, Action],
        probes: Mapping[str, Probe],
        *,
        lease: Leased = contextlib.nullcontext,
        permissions: Permissions | None = None,
        board: Board | None = None,
        on_close: Callable[[], None] = lambda: None,
        new: Beginning | None = None,
    ) -> None:
        self.workplace = workplace
        self.drill = plan.drill
        self.environment = environment_at(workplace.properties, lab=workplace.lab is not None)
        self._banner = None if self.environment is None else shown.banner(plan.drill, self.environment)
        self._plan = plan
        self._lease = lease
        self._on_close = on_close
        self._new = new
        self._board = board
        self._watch: FlowWatch | None = None
        self._shown_board = False
        self._order = (HYPOTHESIS, *(step.name for step in plan.drill.steps), FINISH)
        self._allowed = -1
        self._reached = -1
        self._closing = False
        self._ended = False
        self._attended = False
        self._moved = threading.Condition()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._actions = actions
        self._probes = probes
        self._permissions = permissions or Permissions()
        self._abort = Abort(workplace.run_dir)

    # -- what there is to see --------------------------------------------------------------------------------------

    def plan(self) -> Table:
        """What each step will change, and the plan's hash. Changes nothing."""
        rows: list[dict[str, Scalar]] = []
        for step, planned in zip(self.drill.steps, self._plan.steps, strict=True):
            for change in planned.changes:
                rows.append(
                    {
                        "step": step.name,
                        "changes": change.entity,
                        "from": _value(change.before),
                        "to": _value(change.after),
                    }
                )
            if not planned.changes:
                rows.append({"step": step.name, "changes": "nothing", "from": "", "to": ""})
        word = shown.mode_word(self.drill.mode, self.environment).upper()
        title = f"{word}: {shown.meaning(self.drill, self.environment)} Plan of {self.drill.name}"
        return Table(title, rows, f"plan {self._plan.hash}", above=self._banner)

    def board(self) -> None:
        """Show here, from now on and while cells run, where the steps are and how flow and groups stand."""
        if self._board is None:
            return
        if self._watch is None and self.workplace.properties is not None:
            self._watch = FlowWatch(self.workplace)
            self._watch.start()
        self._board.open(self._state(), self)
        self._shown_board = True

    def hypothesis(self) -> Table:
        """Check that the steady state holds before anything is done. Raises `HypothesisFailed`."""
        self._go(HYPOTHESIS)
        rows: list[dict[str, Scalar]] = [{"expectation": each.title, "holds": True} for each in self.drill.hypothesis]
        return Table("Steady state", rows, "" if rows else "This drill has no hypothesis.")

    def until(self, step: str, *, optional: bool = False) -> Table:
        """Do every step up to `step`, which is shown. With `optional`, a step the drill lacks is reported and passed over.

        Raises `UsageError` for no such step, and what `Runner.run` raises.
        """
        chosen = next((candidate for candidate in self.drill.steps if candidate.name == step), None)
        if chosen is None:
            if optional:
                return Table(f"{step} is no part of {self.drill.name}", [])
            known = ", ".join(candidate.name for candidate in self.drill.steps)
            raise UsageError(f"step {step}", f"{self.drill.name} has no such step", f"Its steps are: {known}.")
        self._go(step)
        return self._shown(chosen)

    def finish(self) -> Table:
        """Do the rest, check the hypothesis again, clean up where the strategy says so, and show the verdict.

        Raises what `Runner.run` raises at a run's end.
        """
        self._go(FINISH)
        card = session_score.scorecard(self._plan, self.workplace.run_dir)
        self.close()
        return verdict_table(card.verdict, card.checks)

    def abort(self, by: str = "a button") -> None:
        """Ask the run to stop and roll back by its strategy. Returns at once."""
        self._abort.request(by)

    def approve(self, step: str, by: str) -> None:
        """Approve `step`, before which the run is paused, in the name of `by`; the cell that waits, or is run again, continues.

        Raises `UsageError` for a step that does not wait, and for no name.
        """
        waits = self._waits()
        if waits is None or waits.step != step:
            raise UsageError(f"step {step} is not approved", "the run does not wait for it", "See the board.")
        if not waits.approved_by:
            approvals.write(self.workplace.run_dir, step, self._plan.hash, by)
        self._draw(last=True)

    def abort_paused(self, by: str) -> None:
        """Take up the run that waits for an approval, only to stop it and roll back by its strategy. Blocks until it ended.

        A run that does not wait is left alone. Where a cell waits with it, that cell does it, and this comes back at once.
        """
        if self._waits() is None:
            return
        self._abort.request(by)
        if self._attended:  # a cell waits with the run, and resumes it
            return
        self._error = None
        self._start()
        while not self._over:
            self._look()
        self._draw(last=True)

    def close(self) -> None:
        """Release lease and journal. Changes stay, and the run can be resumed. Safe to repeat."""
        with self._moved:
            self._closing = True
            self._moved.notify_all()
        if self._thread is not None:
            self._thread.join(30)
            self._thread = None
        if self._watch is not None:
            self._watch.close()
        self._draw(last=True)
        self._on_close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _go(self, where: str) -> None:
        """Let the run continue through `where`, and return when it is past it. Raises what ended the run."""
        index = self._order.index(where)
        while True:
            # A pause: who has approved meanwhile runs the cell again. So does who waited for clusters or another run.
            if isinstance(self._error, ApprovalMissing) or self._refused_at_start:
                self._error = self._thread = None
            if self._error is not None:
                raise self._error
            with self._moved:
                self._allowed = max(self._allowed, index)
                if self._thread is None and not self._closing:
                    self._start()
                self._moved.notify_all()
            try:
                self._until_past(index)
            except KeyboardInterrupt:
                self._abort.request("an interrupt")
                self._until_over()
            if not self._answered():
                break
        self._draw(last=True)
        if self._error is not None:
            raise self._error
        if self._closing and self._reached <= index and not self._ended:
            raise UsageError("the drill was closed", "it was left after its last step", "Open it again to resume it.")

    def _answered(self) -> bool:
        """Where the run is paused for an approval that can be given while a cell runs, wait for it here; True when
        it was approved or aborted. False where there is no such pause, and after an interrupt or when the last page closed."""
        if self._board is None or not self._shown_board or self._waits() is None:
            return False
        try:
            self._attended = self._board.answers()
            while self._attended and not self._closing:
                waits = self._waits()
                if waits is None or waits.approved_by or self._abort.requested:
                    return True
                self._look()
                self._attended = self._board.answers()
        except KeyboardInterrupt:
            pass
        finally:
            self._attended = False
        return False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="drill-run", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        """Wait a moment for progress of the run, and redraw the board."""
        with self._moved:
            self._moved.wait(_LOOK_S)
        self._draw()

    @property
    def _refused_at_start(self) -> bool:
        """Whether the run ended before anything was done: a cluster did not answer, or another run has the flow."""
        temporary = isinstance(self._error, (Unreachable, LeaseHeld))
        return temporary and self._over and not (self.workplace.run_dir / JOURNAL).exists()

    @property
    def _over(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def _until_past(self, index: int) -> None:
        while not self._over and self._reached <= index:
            self._look()

    def _draw(self, *, last: bool = False) -> None:
        if self._board is None or not self._shown_board:
            return
        if last:
            self._board.redraw(self._state())
        else:
            self._board.update(self._state)

    def _state(self) -> BoardState:
        path = self.workplace.run_dir / JOURNAL
        steps = steps_of(self.drill, journal.read(path) if path.exists() else (), datetime.now(UTC))
        note = "" if self._error is None else str(self._error)
        waits = self._waits()
        if self._watch is None:
            return BoardState(self.drill, steps, note=note, waits=waits, banner=self._banner)
        return BoardState(self.drill, steps, self._watch.survey, self._watch.unseen, note, waits, self._banner)

    def _waits(self) -> Waits | None:
        """The step that the run is paused before; None while it runs, and once it ended otherwise."""
        if not isinstance(self._error, ApprovalMissing) or not self._over:
            return None
        folder = self.workplace.run_dir
        lines, approved = journal.read(folder / JOURNAL), approvals.read(folder, self._plan.hash)
        return waits_of(self._plan, lines, self._permissions.approved, approved, attended=self._attended)

    def _until_over(self) -> None:
        """After an abort: the run ends in two seconds, and a rollback as long as its undos take."""
        while not self._over:
            with self._moved:
                self._moved.wait(_LOOK_S)
        if self._error is None:
            self._error = Aborted("the drill was aborted", "it was interrupted", self._ways_on.sentence)

    @property
    def _ways_on(self) -> WaysOn:
        return request.ways_on(self.workplace.run_dir, self.workplace.run_dir.name)

    def _run(self) -> None:
        folder = self.workplace.run_dir
        begun, was_over = (folder / JOURNAL).exists(), False
        try:
            with self._lease() as flow:
                runner = Runner(
                    self.workplace.run_dir,
                    self._plan,
                    self._actions,
                    self._probes,
                    flow=flow,
                    permissions=self._permissions,
                    gate=self._wait_for_leave,
                    new=self._new,
                    on_superseded=self._superseded,
                )
                runner.run(resume=begun)
            self._ended = True
        except _Left:
            pass
        except RunOver as over:
            self._ended, was_over = True, (folder / MANIFEST).exists()
            self._error = self._said_again(over)
        except BaseException as error:
            self._error = error
        finally:
            if not isinstance(self._error, ApprovalMissing):  # that is a pause, and traffic continues
                sampler.stop(self.workplace.run_dir)
            if not self._closing and not was_over:  # what was sealed stays as it is, whatever became of it since
                try:
                    session_score.write(self._plan, self.workplace.run_dir, self._error)
                except OSError as error:  # what ended the run is worth more than that it cannot be written
                    self._error = self._error or journal.JournalFull(self.workplace.run_dir / JOURNAL, error)
            with self._moved:
                self._moved.notify_all()

    def _superseded(self, gone: LeaseRecord) -> str:
        """Mark the run that this one gave up, and remove what a rehearsal left; the result, in words."""
        flow = self.drill.flow
        target = self.workplace.cluster(flow.target)
        return superseded_run.mark_and_clean_up(gone, self.workplace.run_dir.name, target)

    def _said_again(self, over: RunOver) -> DrlibError | None:
        """What the run raised when it ended, for a later look."""
        try:
            endings.close(self.drill, over.ending, journal.read(self.workplace.run_dir / JOURNAL), self._ways_on)
        except DrlibError as error:
            return error
        return None

    def _wait_for_leave(self, where: str) -> bool:
        """The runner's gate."""
        index = self._order.index(where)
        with self._moved:
            self._reached = index
            self._moved.notify_all()
            while index > self._allowed:
                if self._closing:
                    raise _Left
                if self._abort.requested:
                    return False
                self._moved.wait(_LOOK_S)
        return not self._abort.requested

    def _shown(self, step: Step) -> Table:
        """The result of `step`, from the journal and the details it kept."""
        rows = details.read_rows(self.workplace.run_dir, step.name)
        evidence = _evidence(journal.read(self.workplace.run_dir / JOURNAL), step.name)
        said = [_readable(name, value) for name, value in evidence.items()]
        if not rows:
            return Table(step.title, [{"what": name, "value": value} for name, value in said])
        note = ", ".join(f"{name} {formats.cell(value)}" for name, value in said if value != "")
        if len(rows) > MOST_ROWS:
            all_of_them = (
                f"the first {MOST_ROWS:,} of {len(rows):,} rows: {details.rows_file(step.name)} has all of them"
            )
            note = f"{all_of_them}; {note}"
        shown = [dict(_readable(name, value) for name, value in row.items()) for row in rows[:MOST_ROWS]]
        return Table(step.title, shown, note)


def _evidence(lines: tuple[Line, ...], step: str) -> dict[str, Scalar]:
    evidence: dict[str, Scalar] = {}
    for line in lines:
        if line.event == Noted.STEP_SUCCEEDED and line.data.get("step") == step:
            evidence = {name: value for name, value in line.data.items() if name not in {"step", "detail"}}
    return evidence


def _readable(name: str, value: Scalar) -> tuple[str, Scalar]:
    """The name of a fact in words, and its value; a moment in milliseconds as a date and time."""
    words = name.replace("_", " ")
    if words.endswith(" ms") and isinstance(value, int) and value > _MOMENT_MS:
        return words.removesuffix(" ms"), formats.moment(value)
    return words, value


def _value(value: Scalar) -> Scalar:
    return "not there" if value is None else value
