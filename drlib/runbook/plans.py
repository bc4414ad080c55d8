"""Drills on the command line: planned into a run folder, found by hash, compared with the clusters, resumed, rolled back.

Rules: an error in a runbook, a parameter or a cluster leaves no run folder behind. A run is identified by its folder, which
one process at a time executes; the request is in `run.json`, the planned changes in `plan.json`. A plan is named by at
least 12 digits of its hash, and is run once.
Not for: executing notebooks (`drlib.runbook.execution.execute`), nor showing anything.
Longer than most modules: all that a command does with a run before and after its notebook.
"""

import contextlib
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.drill.flow_state.flow_record import read_record
from drlib.drill.flow_state.lease_holder import refuse_unfinished
from drlib.drill.plan import progress as drill_progress
from drlib.drill.plan.plan import Plan, Step
from drlib.drill.plan.progress import Over, RunOutcome
from drlib.drill.plan.states import active
from drlib.drill.readiness import gate
from drlib.drill.run import planning, registry, request
from drlib.drill.run.permissions import Permissions, refuse_untyped
from drlib.drill.run.request import ClusterTarget, Request
from drlib.drill.run.runner import LOCK, Runner, notes_of
from drlib.drill.session import scorecard as session_score
from drlib.drill.step.action import does_the_same
from drlib.drill.step.argument_types import nearest
from drlib.drill.step.known_silence import KnownSilence
from drlib.errors import Aborted, DeviatedRolledBack, DrlibError, LeaseHeld, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import answers
from drlib.lab.lab import Lab
from drlib.runbook import open_drill as opening
from drlib.runbook import run_parameters
from drlib.runbook.execution.outcome import FULL
from drlib.runbook.file import model, parameters
from drlib.runbook.file.drill_section import StepSection
from drlib.runbook.file.model import Runbook, Value
from drlib.runbook.just_found import NOTHING_FOUND, JustFound
from drlib.runbook.open_drill import Opened
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs import lock as folder_lock
from drlib.runs.abort import Abort, user_name
from drlib.runs.journal import JOURNAL

DIGITS: Final = 12
_LOOK_S: Final = 0.05
_DEAD_S: Final = 20.0  # a kernel whose parent was killed ends within this
_OURS: Final = ("run_dir", "lab_dir", "properties", "runbook", "skip_gate")  # parameters a run sets itself


def targeted(target: ClusterTarget, arguments: Mapping[str, Value]) -> ClusterTarget:
    """`target`, or what the notebook's own parameters `properties` and `lab_dir` were given as."""
    if target != ClusterTarget():
        return target
    return ClusterTarget.of(str(arguments.get("properties", "")), str(arguments.get("lab_dir", "")))


@dataclass(frozen=True, slots=True)
class Granted:
    """What the operator has granted: approved steps, cluster IDs, a reason to skip the readiness gate, and the name of an
    unfinished run to supersede."""

    approved: tuple[str, ...] = ()
    cluster_ids: tuple[str, ...] = ()
    skip_gate: str | None = None
    supersede: str = ""


def look(book: Runbook, arguments: Mapping[str, Value], target: ClusterTarget) -> Plan:
    """What the drill would change now. Saves nothing and changes nothing."""
    target = targeted(target, arguments)
    with tempfile.TemporaryDirectory() as nowhere, _opened(book, arguments, target, Path(nowhere)) as opened:
        return _planned(book, opened)


def keep(
    book: Runbook,
    arguments: Mapping[str, Value],
    target: ClusterTarget,
    *,
    runs_dir: Path,
    granted: Granted = Granted(),
    through_gate: bool = False,
    found: JustFound = NOTHING_FOUND,
) -> Path:
    """Make a run folder with the request and, where it is said which clusters it is for, the plan. A folder that could not
    be filled is deleted. `through_gate`: the run follows at once, so the gate is checked. `found`: just now, by the command."""
    target = targeted(target, arguments)
    refuse_unknown(book.name, book.drill.steps if book.drill else (), granted.approved)
    run = folders.create(runs_dir, book.name)
    try:
        KnownSilence(run.path).note(found.silent)
        asked = Request(
            runbook=book.file,
            parameters=run_parameters.given(book, arguments),
            properties=target.properties.absolute() if target.properties else None,
            lab_dir=target.lab_dir.absolute() if target.lab_dir else None,
            lab_ends=target.lab_ends,
            approved=granted.approved,
            cluster_ids=granted.cluster_ids,
            skip_gate=granted.skip_gate,
            supersede=granted.supersede,
        )
        if target == ClusterTarget():  # the notebook knows
            asked.write(run.path)
            return run.path
        with _opened(book, arguments, target, run.path, asked) as opened:
            gate.refuse_skip(opened.drill.mode, granted.skip_gate)
            if through_gate:
                if not granted.supersede:
                    _refuse_unfinished(book, opened)
                _refuse_untyped(opened, granted.cluster_ids)
                how, judged = opened.drill, found.judged(clock.now_ms())
                gate_result = gate.pass_gate(
                    opened.workplace, how.mode, skip=granted.skip_gate, activity=how.command, judged=judged
                )
                if granted.supersede:  # a run that is refused does not stop another one
                    _refuse_unfinished(book, opened)
                asked = asked.model_copy(update={"gate": gate_result, "gate_ms": clock.now_ms()})
            plan = _planned(book, opened)
            asked.of_plan(plan.hash).write(run.path)
            planning.write(plan, run.path)
            return run.path
    except BaseException as error:
        folders.discard(run)
        if isinstance(error, OSError) and error.errno in FULL:
            raise folders.unwritable(runs_dir, error) from error
        raise


def _planned(book: Runbook, opened: Opened) -> Plan:
    """The plan of what is now. The silence of own clusters' target, without which no lease is held, is said at once."""
    if opened.workplace.lab is None and book.drill is not None and book.drill.lease:
        answers([opened.workplace.cluster(opened.drill.flow.target)])
    return planning.make_plan(opened.drill, opened.actions)


def by_hash(runs_dir: Path, digits: str) -> Path:
    """The run folder of the plan that begins with `digits`. Raises `UsageError` for none, or one that was begun."""
    if len(digits) < DIGITS or set(digits) - set("0123456789abcdef"):
        raise UsageError(
            f"plan '{digits}'",
            f"it needs at least {DIGITS} digits of the plan's hash",
            "Copy them from drlib plan.",
        )
    matching = [
        path.parent for path in sorted(runs_dir.glob(f"*/{planning.PLAN_FILE}")) if _hash(path).startswith(digits)
    ]
    if len({_hash(path / planning.PLAN_FILE) for path in matching}) > 1:
        raise UsageError(f"plan {digits}", "more than one plan begins with these digits", "Give more digits.")
    new = [path for path in matching if not (path / JOURNAL).exists()]
    if new:
        return new[-1]
    if matching:
        raise UsageError(
            f"plan {digits}",
            f"it was already started in {matching[-1].name}",
            f"Continue it: {request.ways_on(matching[-1]).resume}. Or make a new plan.",
        )
    raise UsageError(f"plan {digits}", f"no such plan in {runs_dir}", "Make one: drlib plan RUNBOOK.")


def run_of(runs_dir: Path, name: Path) -> tuple[Path, Request]:
    """A run's folder, by its path or by its name in `runs_dir`, and what was asked of it."""
    for path in (name, runs_dir / name):
        asked = request.find(path) if path.is_dir() else None
        if asked is not None:
            return path.absolute(), asked
    known = sorted(path.parent.name for path in runs_dir.glob(f"*/{request.REQUEST_FILE}"))
    hint = nearest(name.name, known, "drlib runs lists them.")
    raise UsageError(f"run {name}", f"no folder of that name has a {request.REQUEST_FILE}", hint)


def compare(folder: Path, asked: Request, granted: Granted) -> Request:
    """Check a saved plan before it is run: no process runs it, the clusters are as planned, and the gate is open.

    Returns the request with what was granted. Raises `StalePlan`, `ReadinessError`, `LeaseHeld` and what `keep` does.
    """
    book = model.load(asked.runbook)
    if granted.supersede:
        asked = asked.model_copy(update={"supersede": granted.supersede})
    with _opened(book, asked.parameters, asked.target, folder, asked) as opened:
        if not asked.supersede:
            _refuse_unfinished(book, opened)
        plan = planning.read(folder)
        asked = asked.of_plan(plan.hash)
        opening.same_drill(opened.drill, opened.actions, plan, folder)
        refuse_unknown(plan.drill.name, plan.drill.steps, granted.approved)
        _refuse_untyped(opened, (*asked.cluster_ids, *granted.cluster_ids))
        skip = granted.skip_gate if granted.skip_gate is not None else asked.skip_gate
        gate_result = gate.pass_gate(opened.workplace, plan.drill.mode, skip=skip, activity=plan.drill.command)
        if asked.supersede:
            _refuse_unfinished(book, opened)
        planning.compare(plan, opened.actions)
    asked = asked.granted(granted.approved, granted.cluster_ids)
    return asked.model_copy(update={"skip_gate": skip, "gate": gate_result, "gate_ms": clock.now_ms()})


def take_up(folder: Path, asked: Request, granted: Granted) -> tuple[Runbook, Request]:
    """Check a run before it is resumed or rolled back: it has not ended, and its lab still runs."""
    book, plan = model.load(asked.runbook), planning.read(folder)
    asked = asked.of_plan(plan.hash)
    refuse_unknown(plan.drill.name, plan.drill.steps, granted.approved)
    if granted.skip_gate is not None:
        raise UsageError("--skip-gate", "a resumed run has passed the gate already", "Leave it out.")
    if granted.supersede:
        raise UsageError("--supersede", "a resumed run has begun already", "Leave it out.")
    ended = ending_of(folder, plan)
    if ended is not None and ended.ending.by:
        by = ended.ending.by
        raise UsageError(
            f"{folder.name} cannot be resumed or rolled back",
            f"it was superseded by {by}",
            "Make a new plan and run that.",
        )
    if ended is not None and not ended.resumable and not _unsettled(folder, book, asked):
        raise UsageError(f"{folder.name} has ended", "there is nothing left to do", "Make a new plan and run that.")
    asked.require_lab(folder.name)
    if asked.lab_dir is not None:
        Lab.attach(asked.lab_dir)
    return book, asked.granted(granted.approved, granted.cluster_ids)


def roll_back(folder: Path, asked: Request, granted: Granted) -> RunOutcome:
    """Undo the steps of a run, whatever its strategy. Raises `Deviated` when a step cannot be undone."""
    _, asked = take_up(folder, asked, granted)
    ended = ending_of(folder, planning.read(folder))
    if ended is not None and not ended.resumable and ended.ending.standing:
        raise UsageError(
            f"{folder.name} has ended",
            "only the state of its flow was not written, so there is nothing to undo",
            f"Write it: {request.ways_on(folder).resume}",
        )
    wait_for_the_dead(folder)
    with _opened(model.load(asked.runbook), asked.parameters, asked.target, folder, asked) as opened:
        plan = planning.read(folder)
        _refuse_edited(folder, plan, opened)
        error: DrlibError | None = None
        with opened.lease() as flow:
            permissions = Permissions(
                approved=frozenset(asked.approved),
                cluster_ids=frozenset(asked.cluster_ids),
                lab=opened.workplace.lab is not None,
            )
            runner = Runner(folder, plan, opened.actions, opened.probes, flow=flow, permissions=permissions)
            try:
                runner.run(rollback=True)
            except (Aborted, DeviatedRolledBack) as stopped:  # how it ended: the requested rollback was done
                error = stopped
            finally:
                session_score.write(plan, folder, error)
    ended = ending_of(folder, plan)
    if ended is None:
        raise error or Aborted(
            f"{folder.name} is not rolled back",
            "the rollback did not finish",
            request.ways_on(folder).undo_sentence,
        )
    if ended.ending.standing and error is not None:
        raise error
    return ended.ending


def _refuse_edited(folder: Path, plan: Plan, opened: Opened) -> None:
    """Raises `UsageError` for a step that was begun and is another one by now: it would undo something else. How it is undone
    may have been corrected."""
    lines = journal.read(folder / JOURNAL) if (folder / JOURNAL).exists() else ()
    begun = drill_progress.fold(notes_of(lines)).begun
    before, now = (registry.kept(drill, opened.actions) for drill in (plan.drill, opened.drill))
    calls = {step.name: step.action for step in now.steps}
    edited = [s.name for s in before.steps if s.name in begun and not does_the_same(s.action, calls.get(s.name))]
    if edited or before.flow != now.flow:
        raise UsageError(
            f"{folder.name} cannot be rolled back",
            f"{edited[0] if edited else before.flow} is not as it was planned: the runbook or a parameter was edited since",
            "Restore the runbook for this, or undo it by hand: its plan.json has what was planned.",
        )


def _unsettled(folder: Path, book: Runbook, asked: Request) -> bool:
    """Does the flow's target still say that the run is not over, as its end could not be written there? Asks the target."""
    if book.drill is None or not book.drill.lease or asked.ways_on(folder.name).again:
        return False
    with _opened(book, asked.parameters, asked.target, folder, asked) as opened:
        flow = opened.workplace.flow
        with Cluster(opened.workplace.cluster(flow.target)) as cluster:
            record = read_record(cluster, flow)
    return record.run == folder.name and active(record.state)


def ending_of(folder: Path, plan: Plan) -> Over | None:
    """How the run in `folder` ended, as its journal says; None while it has not."""
    path = folder / JOURNAL
    lines = journal.read(path) if path.exists() else ()
    if not lines:
        return None
    upcoming = drill_progress.decide(plan.drill, notes_of(lines))
    return upcoming if isinstance(upcoming, Over) else None


# -- abort ---------------------------------------------------------------------------------------------------------


def abort(folder: Path, wait_s: float) -> tuple[RunOutcome | None, float]:
    """Request the run to stop and roll back by its strategy. Returns how it ended (None: not yet) and the seconds waited.

    Raises `UsageError` for a run that has ended or that no process runs.
    """
    plan = planning.read(folder)
    if ending_of(folder, plan) is not None:
        raise UsageError(f"{folder.name} cannot be aborted", "it has ended", "See its journal.")
    if not held(folder):
        raise UsageError(
            f"{folder.name} cannot be aborted",
            "no process runs it; what it changed is not undone",
            request.ways_on(folder).undo_sentence,
        )
    began = time.monotonic()
    Abort(folder).request(f"{user_name()} on {socket.gethostname()} (drlib abort)")
    while time.monotonic() - began < wait_s:
        ended = ending_of(folder, plan)
        if ended is not None or not held(folder):
            return (None if ended is None else ended.ending), time.monotonic() - began
        time.sleep(_LOOK_S)
    return None, time.monotonic() - began


def executed(runs_dir: Path) -> list[Path]:
    """The folders of runs that a process executes now, oldest first."""
    folders.refuse_file(runs_dir)
    planned = (path.parent for path in runs_dir.glob(f"*/{planning.PLAN_FILE}"))
    return sorted(folder for folder in planned if held(folder))


def ask_to_stop(folders: Iterable[Path]) -> None:
    """Ask all of them at once, before any is waited for."""
    for folder in folders:
        Abort(folder).request(f"{user_name()} on {socket.gethostname()} (drlib abort --all)")


def wait_for_the_dead(folder: Path) -> None:
    """Wait until the kernel of a killed run has released its folder. Raises `LeaseHeld` when it does not."""
    end = time.monotonic() + _DEAD_S
    while held(folder):
        if time.monotonic() > end:
            raise LeaseHeld(
                f"{folder.name} is running",
                "another process executes it",
                f"Wait until it ends, or: drlib abort {folder}",
            )
        time.sleep(_LOOK_S)


def held(folder: Path) -> bool:
    """Does a living process run the plan in `folder`, or execute its notebook?"""
    return folder_lock.held(folder, LOCK, folders.EXECUTING)


def held_by_executor(folder: Path) -> bool:
    return folder_lock.held(folder, folders.EXECUTING)


def unfinished(folder: Path) -> bool:
    """Can the drill in `folder` be resumed?"""
    if not (folder / JOURNAL).exists() or not (folder / planning.PLAN_FILE).exists():
        return False
    ended = ending_of(folder, planning.read(folder))
    return ended is None or ended.resumable


def _refuse_untyped(opened: Opened, cluster_ids: Iterable[str]) -> None:
    granted = Permissions(cluster_ids=frozenset(cluster_ids), lab=opened.workplace.lab is not None)
    refuse_untyped(opened.drill, opened.actions, granted)


def _refuse_unfinished(book: Runbook, opened: Opened) -> None:
    """Raises what the lease would, before anything is planned, and stops a run that is to be superseded.

    A target that does not answer is for the plan to report.
    """
    if book.drill is None or not book.drill.lease:
        return
    flow, place = opened.workplace.flow, opened.workplace
    try:
        refuse_unfinished(place.cluster(flow.target), place.clusters.get(flow.source), flow, opened.new)
    except Unreachable:
        return


def missing_approval(folder: Path) -> str:
    """The first step of the run in `folder` that waits for an approval; empty when none does."""
    lines = journal.read(folder / JOURNAL) if (folder / JOURNAL).exists() else ()
    approved = drill_progress.fold(notes_of(lines)).approved
    return next(iter(drill_progress.missing_approvals(planning.read(folder).drill, approved)), "")


def refuse_unknown(name: str, steps: Iterable[Step | StepSection], approved: Iterable[str]) -> None:
    """Raises `UsageError` for an approval of a step that does not exist or does not wait for one."""
    waiting = [step.name for step in steps if step.approval]
    for approval in approved:
        if approval not in waiting:
            hint = nearest(approval, waiting, f"Steps that wait for approval: {', '.join(waiting) or 'none'}.")
            raise UsageError(f"--approve {approval}", f"{name} has no such step that waits for approval", hint)


@contextlib.contextmanager
def _opened(
    book: Runbook, arguments: Mapping[str, Value], target: ClusterTarget, run_dir: Path, asked: Request | None = None
) -> Iterator[Opened]:
    opened = opening.prepare(book, run_dir, target, values(book, arguments), start_lab=False, asked=asked)
    try:
        yield opened
    finally:
        opened.close()


def values(book: Runbook, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """The notebook's parameters: its defaults, the runbook's values and objectives, then those given."""
    known = parameters.declared(book.notebook)
    aims = {name: value for name, value in book.objectives.model_dump().items() if value is not None}
    defaults = {name: merged.default for name, merged in known.items() if merged.default is not None}
    merged = {**defaults, **aims, **run_parameters.resolved(book, arguments)}
    return {name: value for name, value in merged.items() if name not in _OURS}


def _hash(plan_file: Path) -> str:
    try:
        return planning.read(plan_file.parent).hash
    except UsageError:
        return ""
