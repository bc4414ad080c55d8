"""Run a plan step by step, and resume a run that was killed: every action is journaled before and after.

Rules: `drlib.drill.plan.progress.decide` gives the next thing to do, from the journal alone; it is done here. A stale plan, a
destructive step whose cluster's ID was not typed, and a flow in a wrong state are refused before anything is done. Each step is
compared with the plan again just before it begins. An abort ends a step's waits at once; a step that does not end within
`ABORT_S` is left, and the run is not rolled back over it. A run that lost the flow's lease stops and changes nothing more.
Every way out releases the lease.
Not for: what the steps are (`drlib.drill.step`), making plans (`planning`), and what an ending is called (`outcome`).
"""

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from drlib import clock, formats
from drlib.drill.flow_state import lease_holder
from drlib.drill.plan import progress as drill_progress
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Danger, Plan
from drlib.drill.plan.progress import Note, Noted, Reach, RunOutcome, When
from drlib.drill.plan.states import DrillEvent, DrillState, active, move
from drlib.drill.plan.supersede import Beginning, Entered
from drlib.drill.plan.ways_on import WaysOn
from drlib.drill.run import approvals, planning, request
from drlib.drill.run import outcome as endings
from drlib.drill.run.lease import Lease, LeaseLost, LeaseUnconfirmed
from drlib.drill.run.outcome import Result
from drlib.drill.run.permissions import NOTHING_GRANTED, Permissions, refuse_untyped, unapproved
from drlib.drill.run.step_thread import Stuck, working
from drlib.drill.step import stop_conditions
from drlib.drill.step.action import Action, Probe
from drlib.errors import Aborted, ApprovalMissing, UsageError, explain
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.folder import unseal
from drlib.runs.journal import JOURNAL, DrillJournal, JournalFull, Scalar
from drlib.runs.lock import alone

LOCK: Final = lease_holder.RUNNING
_LEFT: Final = (Stuck, LeaseLost, LeaseUnconfirmed, JournalFull, ApprovalMissing)  # the run stays where it is
_LOOK_S: Final = 0.05
_LOCKED_S: Final = 0.5  # a process that only checks the lock holds it for a moment


class RunOver(UsageError):
    """The run has ended before; `ending` is how."""

    def __init__(self, run: str, ending: RunOutcome) -> None:
        super().__init__(f"{run} is over", f"it {endings.describe(ending)}", "Make a new plan and run that.")
        self.ending = ending


HYPOTHESIS: Final = "hypothesis"
FINISH: Final = "finish"


class Runner:
    """One run of `plan` in `folder`. `run` may be called once; another process resumes it with `resume=True`.

    `gate` waits until the next part may begin (`HYPOTHESIS`, a step's name, or `FINISH`); False: an abort was asked for.
    `new` says which unfinished run of the flow this one gives up, if any; `on_superseded` is called once it has, and returns
    the result of removing what that run left.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        actions: Mapping[str, Action],
        probes: Mapping[str, Probe],
        *,
        flow: Lease | None = None,  # None: a drill of a lab that no other process can reach
        permissions: Permissions = NOTHING_GRANTED,
        gate: Callable[[str], bool] = lambda where: True,
        new: Beginning | None = None,
        on_superseded: Callable[[LeaseRecord], str] = lambda record: "",
    ) -> None:
        self.folder = folder
        self.plan = plan
        self._drill = plan.drill
        self._actions = actions
        self._probes = probes
        self._flow = flow
        self._permissions = permissions
        self._abort = Abort(folder)
        self._gate = gate
        self._new = new or Beginning(run=folder.name, command=plan.drill.command, mode=plan.drill.mode)
        self._on_superseded = on_superseded

    def run(self, *, resume: bool = False, rollback: bool = False) -> Result:
        """Run it to its end, resume it (`resume`), or undo it (`rollback`, of a run that was begun).

        Raises `UsageError`, `StalePlan`, `LeaseHeld` and `Unreachable` before anything is done; then `ApprovalMissing`
        (a pause), `HypothesisFailed`, `Deviated`, `DeviatedRolledBack`, `Aborted` and `ObjectiveMissed`.
        """
        resume = resume or rollback
        with self._alone(), self._abort.on_signals():
            planning.write(self.plan, self.folder)
            before = self._take_up(resume)
            upcoming = drill_progress.decide(self._drill, before)
            if isinstance(upcoming, drill_progress.Over) and not upcoming.resumable:
                self._settle(upcoming.ending)
                return self._close(upcoming.ending)
            refuse_untyped(self._drill, self._actions, self._permissions)
            entered = self._enter(before)
            self._journal = DrillJournal(self.folder / JOURNAL)
            try:
                self._open(before, entered, resume, rollback)
                conditions = {each.title: self._probes[each.title] for each in self._drill.stop_conditions}
                with stop_conditions.watched(conditions, self.folder, self._abort.request) as unwatch:
                    return self._loop(unwatch)
            except _LEFT as left:
                left.remedy = f"{left.remedy} {self._ways_on.sentence}"
                raise
            finally:
                self._journal.close()

    # -- before anything is done -----------------------------------------------------------------------------------

    def _alone(self) -> AbstractContextManager[None]:
        """Two processes on one run folder would each write half a journal."""
        return alone(self.folder, LOCK, "another process holds its folder", "Let it end, or abort it.", _LOCKED_S)

    def _take_up(self, resume: bool) -> tuple[Note, ...]:
        """The notes of the journal so far, which has to be there or not, as `resume` says."""
        path = self.folder / JOURNAL
        lines = journal.read(path) if path.exists() else ()
        if resume and not lines:
            raise UsageError(f"{self.folder.name} cannot be resumed", "it was never begun", "Run its plan.")
        if lines and not resume:
            raise UsageError(f"{self.folder.name} was begun", "it has a journal", self._ways_on.sentence)
        if lines and lines[0].data.get("plan") != self.plan.hash:
            raise UsageError(
                f"{self.folder.name} cannot be resumed", "it ran another plan", "Use the plan it began with."
            )
        notes = notes_of(lines)
        if lines:
            upcoming = drill_progress.decide(self._drill, notes)
            if isinstance(upcoming, drill_progress.Over) and not upcoming.resumable and not self._unsettled:
                raise RunOver(self.folder.name, upcoming.ending)
        return notes

    @property
    def _unsettled(self) -> bool:
        """Is the flow said to be in the middle of this run?"""
        return self._flow is not None and self._flow.run_id == self.folder.name and active(self._flow.state)

    def _enter(self, before: tuple[Note, ...]) -> Entered | None:
        """The flow's state while this runs. Raises `UsageError` where it may not begin, or another run has changed it since."""
        if self._flow is None:
            return None
        record, name = self._flow.record, self.folder.name
        if (past := record.superseded_by(name)) is not None:
            raise UsageError(
                f"{name} cannot be resumed or rolled back",
                f"it was superseded by {past.by} at {formats.second(past.at_ms)} UTC, and {self._drill.flow} is {record.state}",
                "Make a new plan and run that.",
            )
        ours = record.run == name and bool(before)
        if not ours and drill_progress.fold(before).begun:
            raise UsageError(
                f"{name} cannot be resumed",
                f"{self._drill.flow} is {record.state} by run {record.run or 'none'}",
                "Resume that run, or make a new plan.",
            )
        if ours and isinstance(to := move(record.state, DrillEvent.RESUME), DrillState):
            return Entered(to)
        return lease_holder.entered(self._drill.flow, record, self._new, self._flow.opposite)

    def _open(self, before: tuple[Note, ...], entered: Entered | None, resume: bool, rollback: bool) -> None:
        """Compare with the plan, write the first line and the flow's state, before anything is done."""
        now = drill_progress.fold(before)
        if not rollback and not now.rolling_back:
            self._compare([s.name for s in self._drill.steps if s.name not in now.done], now)
        self._lines: list[Note] = list(before)
        unseal(self.folder)
        if resume and now.ended:
            self._abort.clear()
        if resume:
            self._note(Noted.RUN_RESUMED, detail=drill_progress.ROLLBACK if rollback else "", pid=os.getpid())
        else:
            gate_result = {"readiness": self._permissions.readiness} if self._permissions.readiness else {}
            self._note(Noted.RUN_STARTED, plan=self.plan.hash, drill=self._drill.name, pid=os.getpid(), **gate_result)
        if self._flow is None or entered is None:
            return
        gone = entered.superseded
        names = None if gone is None else gone.given_up(self.folder.name, clock.now_ms())
        self._flow.write(entered.state, mode=self._drill.mode, standing=self._standing(), superseded=names)
        if gone is not None:
            left = self._on_superseded(gone)
            self._note(
                Noted.SUPERSEDES, detail=gone.run, state=gone.state, standing=", ".join(gone.standing), left=left
            )

    def _compare(self, steps: Collection[str], now: drill_progress.Progress) -> None:
        observed = planning.at_once(lambda name: self._actions[name].observe(), list(steps))
        facts = {fact.entity: fact for those in observed for fact in those}
        done, begun = now.done - now.undone, now.begun - now.done
        planning.refuse_stale(self.plan, self._actions, facts.values(), of=steps, done=done, begun=begun)

    # -- the run ---------------------------------------------------------------------------------------------------

    def _loop(self, unwatch: Callable[[], None]) -> Result:
        while True:
            if not drill_progress.may_abort(self._lines):
                unwatch()
            if self._abort.requested and drill_progress.may_abort(self._lines):
                self._note(Noted.ABORT_REQUESTED, detail=self._abort.by())
            upcoming = drill_progress.decide(self._drill, self._lines)
            where = self._where(upcoming)
            if where and not self._gate(where) and drill_progress.may_abort(self._lines):
                continue
            match upcoming:
                case drill_progress.CheckHypothesis(when):
                    self._hypothesis(when)
                case drill_progress.AskApproval(step):
                    self._approval(step)
                case drill_progress.Probe(step):
                    self._probe(step)
                case drill_progress.Accept(step):
                    self._note(Noted.STEP_SUCCEEDED, step, found=True)
                case drill_progress.Act(step, again):
                    self._act(step, again)
                case drill_progress.Undo(step, needed):
                    self._undo(step, needed)
                case drill_progress.End(ending):
                    self._note(Noted.RUN_ENDED, detail=ending.outcome, standing=", ".join(ending.standing))
                    self._settle(ending)
                case drill_progress.Over(ending):
                    return self._close(ending)

    def _where(self, upcoming: drill_progress.Next) -> str:
        """What the gate is asked for before `upcoming`; empty for a rollback, which does not wait."""
        match upcoming:
            case drill_progress.CheckHypothesis("before"):
                return HYPOTHESIS
            case drill_progress.AskApproval(step) | drill_progress.Act(step):
                return step
            case drill_progress.CheckHypothesis() | drill_progress.Undo() | drill_progress.End():
                return FINISH if drill_progress.may_abort(self._lines) else ""
        return ""

    def _settle(self, ending: RunOutcome) -> None:
        """Write the flow's state after the run, once the journal has the end; killed between the two, on resume."""
        if self._flow is not None:
            to = move(self._flow.state, drill_progress.closing_event(self._drill, ending))
            assert isinstance(to, DrillState)  # it is in the middle of an activity, which may end in every way
            self._flow.write(to, mode=self._drill.mode, standing=ending.standing)

    def _hypothesis(self, when: When) -> None:
        for title in (each.title for each in self._drill.hypothesis):
            probe = self._probes[title]
            try:
                answer = working(lambda p=probe: p(self._abort), self._abort)  # type: ignore[misc]
                holds, evidence = answer.holds, answer.evidence
            except Aborted:
                return
            except Exception as error:
                holds, evidence = None, explain(error)
            if not holds:
                result = "does not hold" if holds is False else "could not be checked"
                self._note(Noted.HYPOTHESIS_FAILED, detail=when, expectation=title, evidence=f"{result}: {evidence}")
                return
        self._note(Noted.HYPOTHESIS_HELD, detail=when)

    def _approval(self, step: str) -> None:
        end = time.monotonic() + self._permissions.approval_wait_s
        while True:
            if step in self._permissions.approved:
                return self._note(Noted.APPROVED, step, by="flag")
            in_file = approvals.read(self.folder, self.plan.hash)
            if (by := in_file.by.get(step)) is not None:
                return self._note(Noted.APPROVED, step, by=by)
            if self._abort.requested:
                return None
            if time.monotonic() >= end:
                missing = drill_progress.missing_approvals(self._drill, drill_progress.fold(self._lines).approved)
                raise unapproved(step, self.plan.hash, missing, in_file.refused)
            time.sleep(_LOOK_S)

    def _probe(self, step: str) -> None:
        changes = self.plan.of(step).changes
        try:
            reach, evidence = self._actions[step].probe(changes), ""
        except Exception as error:
            reach, evidence = Reach.UNKNOWN, explain(error)
        self._note(Noted.PROBED, step, detail=reach, evidence=evidence)

    def _act(self, step: str, again: bool) -> None:
        self._confirm(step)
        try:
            if not again:
                self._compare([step], drill_progress.fold(self._lines))
        except Exception as error:
            return self._note(Noted.STEP_FAILED, step, error=explain(error))
        self._note(Noted.STEP_STARTED, step)
        changes, began = self.plan.of(step).changes, time.monotonic()
        try:
            evidence = working(lambda: self._actions[step].act(changes, self._abort), self._abort, self._lost)
        except Stuck:
            self._refuse_lost()
            raise
        except Aborted:
            self._refuse_lost()
            if not self._abort.requested:
                self._abort.request(f"step {step}")
            return None  # how far it came is for its probe
        except Exception as error:
            return self._note(Noted.STEP_FAILED, step, error=explain(error))
        return self._note(Noted.STEP_SUCCEEDED, step, "", **{"seconds": round(time.monotonic() - began, 3), **evidence})

    def _undo(self, step: str, needed: bool) -> None:
        if needed:
            self._confirm()
            self._note(Noted.UNDO_STARTED, step)
            try:
                working(lambda: self._actions[step].undo(self.plan.of(step).changes), None, self._lost)
            except Stuck:
                self._refuse_lost()
                raise
            except Exception as error:
                return self._note(Noted.UNDO_FAILED, step, error=explain(error))
        return self._note(Noted.UNDO_SUCCEEDED, step, needed=needed)

    def _close(self, ending: RunOutcome) -> Result:
        return endings.close(self._drill, ending, journal.read(self.folder / JOURNAL), self._ways_on)

    @property
    def _ways_on(self) -> WaysOn:
        return request.ways_on(self.folder, self.folder.name)

    def _confirm(self, beginning: str = "") -> None:
        """The flow still is this run's. The changes of `beginning`, a step, may be in place from now on."""
        if self._flow is not None:
            self._flow.confirm(self._standing(beginning))

    def _standing(self, beginning: str = "") -> tuple[str, ...]:
        """The steps whose changes are, or may be, in place, by the journal; with `beginning`, a step that changes something."""
        standing = drill_progress.standing(self._drill, drill_progress.fold(self._lines))
        changing = [step.name for step in self._drill.steps if step.danger is not Danger.NONE]
        return tuple(name for name in changing if name in standing or name == beginning)

    def _lost(self) -> bool:
        return self._flow is not None and self._flow.lost

    def _refuse_lost(self) -> None:
        """Raises `LeaseLost` where it is known to be lost: what the step did is for a probe when it is resumed."""
        if self._lost():
            self._confirm()

    def _note(self, event: Noted, step: str = "", detail: str = "", **data: Scalar) -> None:
        self._journal.write(event, **{**data, "step": step, "detail": detail})
        self._lines.append(Note(event, step, detail))


def notes_of(lines: Collection[journal.Line]) -> tuple[Note, ...]:
    """A journal's lines as far as they decide what is next. Raises `UsageError` for a line this release does not know."""
    notes = []
    for line in lines:
        try:
            event = Noted(line.event)
        except ValueError:
            raise UsageError(
                "the journal cannot be used",
                f"line {line.seq + 1} is a '{line.event}'",
                "Use the release that wrote it.",
            ) from None
        notes.append(Note(event, str(line.data.get("step") or ""), str(line.data.get("detail") or "")))
    return tuple(notes)
