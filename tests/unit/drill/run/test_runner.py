"""The runner on steps that change real files: plans, refusals, approvals, aborts, and a process that dies anywhere."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from drlib.drill.plan.lease_record import LeaseRecord, Superseded
from drlib.drill.plan.plan import Call, Change, Danger, Drill, Expectation, Fact, Mode, Plan, Rollback, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.plan.states import DrillEvent, DrillState
from drlib.drill.plan.supersede import Beginning
from drlib.drill.run import planning
from drlib.drill.run.outcome import Result
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.request import Request
from drlib.drill.run.runner import Runner
from drlib.drill.run.step_thread import ABORT_S
from drlib.drill.step.action import Action, Answer, Changes, Evidence, reach
from drlib.errors import (
    Aborted,
    ApprovalMissing,
    Deviated,
    DeviatedRolledBack,
    DrlibError,
    HypothesisFailed,
    LeaseHeld,
    ObjectiveMissed,
    StalePlan,
    UsageError,
)
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL
from drlib.runs.scorecard import Objectives

ONE = Step(name="one", title="One", action=Call("write"))
TWO = Step(name="two", title="Two", action=Call("write"))
DRILL = Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=(ONE, TWO))


class Killed(BaseException):
    """The process is gone: nothing of ours catches it."""


@dataclass
class WriteFile:
    """Brings a file of its own; a second time would be an error."""

    path: Path
    fails: str = ""  # before, after
    undo_fails: bool = False
    kills: str = ""  # before, after, undo
    hangs_s: float = 0.0
    undo_hangs: threading.Event | None = None
    waits_s: float = 0.0
    when_acting: Callable[[], object] = lambda: None
    evidence: Evidence = field(default_factory=dict)
    called: list[str] = field(default_factory=list)

    def observe(self) -> Sequence[Fact]:
        self.called.append("observe")
        return (Fact(self.path.name, self.path.read_text() if self.path.exists() else None),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        self.called.append("changes")
        return (Change(self.path.name, observed[0].value, "ours"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.called.append("act")
        self._die("before")
        if self.fails == "before":
            raise RuntimeError("it cannot be written")
        self.when_acting()
        if self.waits_s:
            abort.wait(self.waits_s)
        time.sleep(self.hangs_s)
        with self.path.open("x") as file:
            file.write("ours")
        if self.fails == "after":
            raise RuntimeError("the answer was lost")
        self._die("after")
        return self.evidence

    def probe(self, changes: Changes) -> Reach:
        self.called.append("probe")
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        self.called.append("undo")
        self._die("undo")
        if self.undo_hangs is not None:
            self.undo_hangs.wait(60)
        if self.undo_fails:
            raise RuntimeError("it cannot be removed")
        self.path.unlink()

    def cluster_id(self) -> str:
        return "its-cluster"

    def _die(self, where: str) -> None:
        if self.kills == where:
            self.kills = ""
            raise Killed


@dataclass
class Setting:
    """A run folder, and the steps' files beside it."""

    root: Path
    folder: Path
    one: WriteFile
    two: WriteFile
    probes: dict[str, Answer] = field(default_factory=dict)

    @property
    def actions(self) -> dict[str, Action]:
        return {"one": self.one, "two": self.two}

    def plan(self, **changes: object) -> Plan:
        return planning.make_plan(replace(DRILL, **changes), self.actions)  # type: ignore[arg-type]

    def runner(self, plan: Plan, **more: object) -> Runner:
        probes = {title: (lambda _, a=answer: a) for title, answer in self.probes.items()}
        return Runner(self.folder, plan, self.actions, probes, **more)  # type: ignore[arg-type]

    def events(self) -> list[str]:
        lines = journal.read(self.folder / JOURNAL)
        return [f"{line.event} {line.data['step'] or line.data['detail']}".strip() for line in lines]

    def files(self) -> set[str]:
        return {path.name for path in (self.one.path, self.two.path) if path.exists()}


@pytest.fixture
def here(tmp_path: Path) -> Setting:
    folder = tmp_path / "run"
    folder.mkdir()
    return Setting(tmp_path, folder, WriteFile(tmp_path / "file-1"), WriteFile(tmp_path / "file-2"))


def test_run_to_its_end_is_journaled(here: Setting) -> None:
    here.probes = {"all is well": Answer(True, "seen")}
    plan = here.plan(hypothesis=(Expectation("all is well", Call("p")),))
    result = here.runner(plan).run()
    assert isinstance(result, Result)
    assert result.ending.standing == ("one", "two")
    assert here.files() == {"file-1", "file-2"}
    assert here.events() == [
        "run-started",
        "hypothesis-held before",
        "step-started one",
        "step-succeeded one",
        "step-started two",
        "step-succeeded two",
        "hypothesis-held after",
        "run-ended passed",
    ]
    assert journal.read(here.folder / JOURNAL)[0].data["plan"] == plan.hash
    assert planning.read(here.folder) == plan


def test_planning_changes_nothing(here: Setting) -> None:
    plan = here.plan()
    assert set(here.one.called + here.two.called) == {"observe", "changes"}
    assert here.files() == set()
    assert list(here.folder.iterdir()) == []
    assert plan.of("one").changes == (Change("file-1", None, "ours"),)


def test_planning_entity_changed_meanwhile_is_refused(here: Setting) -> None:
    class Moving(WriteFile):
        def changes(self, observed: Sequence[Fact]) -> Changes:
            self.path.write_text("theirs")
            return super().changes(observed)

    here.two = Moving(here.two.path)
    with pytest.raises(StalePlan, match="file-2 was not there and is theirs"):
        here.plan()


# -- refused before anything is done -----------------------------------------------------------------------------------


def test_run_stale_plan_is_refused_by_entity(here: Setting) -> None:
    plan = here.plan()
    here.two.path.write_text("theirs")
    with pytest.raises(StalePlan, match="file-2 was not there and is theirs") as refused:
        here.runner(plan).run()
    assert refused.value.exit_code == 12
    assert "act" not in here.one.called
    assert journal.read(here.folder / JOURNAL) == ()


def test_run_destructive_step_needs_the_cluster_id(here: Setting) -> None:
    plan = here.plan(steps=(ONE, replace(TWO, danger=Danger.DESTRUCTIVE)))
    for typed in (frozenset(), frozenset({"another-cluster"})):
        with pytest.raises(UsageError, match=r"step two is destructive .*its-cluster"):
            here.runner(plan, permissions=Permissions(cluster_ids=typed)).run()
    assert here.files() == set()
    here.runner(plan, permissions=Permissions(cluster_ids=frozenset({"its-cluster"}))).run()
    assert here.files() == {"file-1", "file-2"}


def test_run_destructive_step_on_a_lab_needs_no_cluster_id(here: Setting) -> None:
    plan = here.plan(steps=(ONE, replace(TWO, danger=Danger.DESTRUCTIVE)))
    here.runner(plan, permissions=Permissions(lab=True)).run()


def test_run_folder_is_executed_by_one_process_and_begun_once(here: Setting) -> None:
    plan = here.plan()
    with pytest.raises(UsageError, match="never begun"):
        here.runner(plan).run(resume=True)
    with here.runner(plan)._alone(), pytest.raises(LeaseHeld, match="another process"):
        here.runner(plan).run()
    here.runner(plan).run()
    with pytest.raises(UsageError, match="was begun"):
        here.runner(plan).run()
    with pytest.raises(UsageError, match="it passed"):
        here.runner(plan).run(resume=True)


def test_resume_with_another_plan_is_refused(here: Setting) -> None:
    here.two.kills = "before"
    plan = here.plan()
    with pytest.raises(Killed):
        here.runner(plan).run()
    with pytest.raises(UsageError, match="another plan"):
        here.runner(Plan(replace(plan.drill, name="e"), plan.steps)).run(resume=True)


@pytest.mark.parametrize(("old", "new"), [("ours", "mine"), ("planned", "practice"), ('"hash": "', '"hash": "0')])
def test_plan_edited_in_its_file_is_refused(here: Setting, old: str, new: str) -> None:
    path = planning.write(here.plan(), here.folder)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=r"plan\.json cannot be used"):
        planning.read(here.folder)


# -- endings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holds", [False, None])
def test_hypothesis_not_holding_begins_nothing(here: Setting, holds: bool | None) -> None:
    here.probes = {"all is well": Answer(holds, "lag is 7")}
    plan = here.plan(hypothesis=(Expectation("all is well", Call("p")),))
    with pytest.raises(HypothesisFailed, match=r"'all is well' .*lag is 7"):
        here.runner(plan).run()
    assert here.files() == set()


def test_step_failed_is_rolled_back(here: Setting) -> None:
    here.two.fails = "before"
    with pytest.raises(DeviatedRolledBack, match="step-failed two: RuntimeError: it cannot be written"):
        here.runner(here.plan()).run()
    assert here.files() == set()
    assert here.events()[-3:] == ["undo-started one", "undo-succeeded one", "run-ended deviated"]


def test_step_not_rolled_back_is_named_and_resumed(here: Setting) -> None:
    here.two.fails = "before"
    plan = here.plan(rollback=Rollback.NEVER)
    with pytest.raises(Deviated, match="not undone: one"):
        here.runner(plan).run()
    here.two.fails = ""
    assert here.runner(plan).run(resume=True).ending.standing == ("one", "two")
    assert here.one.called.count("act") == 1


def test_step_not_rolled_back_can_be_rolled_back_later(here: Setting) -> None:
    here.two.fails = "before"
    plan = here.plan(rollback=Rollback.NEVER)
    with pytest.raises(Deviated):
        here.runner(plan).run()
    with pytest.raises(DeviatedRolledBack):
        here.runner(plan).run(rollback=True)
    assert here.files() == set()


def test_step_error_after_its_effect_is_accepted_as_done(here: Setting) -> None:
    here.one.fails = "after"
    here.runner(here.plan()).run()
    assert here.files() == {"file-1", "file-2"}
    assert here.events()[1:5] == ["step-started one", "step-failed one", "probed one", "step-succeeded one"]


def test_undo_failed_ends_the_rollback_and_is_resumed(here: Setting) -> None:
    here.two.fails, here.one.undo_fails = "before", True
    plan = here.plan()
    for resume in (False, True):
        with pytest.raises(Deviated, match=r"undo-failed one: .*it cannot be removed; not undone: one") as stopped:
            here.runner(plan).run(resume=resume)
        name = here.folder.name
        assert (
            f"--supersede {name}. Or, once nothing refuses that undo: drlib run --rollback {name}."
            in stopped.value.remedy
        )
        assert "--resume" not in stopped.value.remedy
    here.one.undo_fails = False
    with pytest.raises(DeviatedRolledBack):
        here.runner(plan).run(resume=True)
    assert here.files() == set()


def test_entity_changed_by_others_during_the_run_is_not_overwritten(here: Setting) -> None:
    class Disturbing(WriteFile):
        def act(self, changes: Changes, abort: Abort) -> Evidence:
            found = super().act(changes, abort)
            self.path.with_name("file-2").write_text("theirs")
            return found

    here.one = Disturbing(here.one.path)
    with pytest.raises(DeviatedRolledBack, match="file-2 was not there and is theirs"):
        here.runner(here.plan()).run()
    assert here.two.path.read_text() == "theirs"
    assert "act" not in here.two.called


def test_step_of_unknown_reach_ends_the_run(here: Setting) -> None:
    class Changed(WriteFile):
        def act(self, changes: Changes, abort: Abort) -> Evidence:
            self.path.write_text("half")
            raise RuntimeError("cut off")

    here.two = Changed(here.two.path)
    with pytest.raises(Deviated, match=r"two.*not undone: one, two.*stays unknown, a new run.*: --supersede run\.$"):
        here.runner(here.plan()).run()
    assert here.two.path.read_text() == "half"
    assert here.files() == {"file-1", "file-2"}


@pytest.mark.parametrize(
    ("reported", "missed"),
    [
        ({"rto_seconds": 61.0, "rpo_records": 3}, "RTO in seconds: 61 of at most 60"),
        ({"rto_seconds": 59.0, "rpo_records": 4}, "RPO in records: 4 of at most 3"),
        ({"rto_seconds": 59.0}, "d is not proven: RPO in records was not measured"),
        ({"rpo_records": 3}, "RTO in seconds was not measured: no step observed when"),
        ({"rto_seconds": 59.0, "rpo_records": 3}, ""),
        ({"rto_seconds": 59.0, "rpo_records": 3, "rpo_at_least": True}, ""),
        (
            {"rto_seconds": 61.0, "rto_at_least": 59.0, "rpo_records": 3},
            "RTO in seconds was not measured closely enough",
        ),
        ({"rto_seconds": 63.0, "rto_at_least": 61.0, "rpo_records": 3}, "RTO in seconds: at least 61 of at most 60"),
        ({"rto_why": "nothing read", "rpo_records": 3}, "RTO in seconds was not measured: nothing read"),
        ({"rpo_records": 4, "rpo_at_least": True}, "RPO in records: 4 of at most 3"),
    ],
)
def test_objectives_are_compared_with_measurements(here: Setting, reported: Evidence, missed: str) -> None:
    here.two.evidence = reported
    runner = here.runner(here.plan(objectives=Objectives(rto_seconds=60, rpo_records=3)))
    if not missed:
        assert len(runner.run().checks) == 2
        return
    with pytest.raises(ObjectiveMissed, match=missed):
        runner.run()


# -- approvals and aborts ----------------------------------------------------------------------------------------------


def test_approval_missing_pauses_the_run(here: Setting) -> None:
    plan = here.plan(steps=(ONE, replace(TWO, approval=True)))
    with pytest.raises(ApprovalMissing, match="not approved: two") as paused:
        here.runner(plan).run()
    assert paused.value.exit_code == 9
    assert here.files() == {"file-1"}
    with pytest.raises(ApprovalMissing):
        here.runner(plan, permissions=Permissions(approved=frozenset({"one"}))).run(resume=True)
    here.runner(plan, permissions=Permissions(approved=frozenset({"two"}))).run(resume=True)
    assert here.files() == {"file-1", "file-2"}
    assert here.one.called.count("act") == 1


def test_approval_by_file_of_another_plan_is_refused_with_the_reason(here: Setting) -> None:
    plan = here.plan(steps=(ONE, replace(TWO, approval=True)))
    (here.folder / "approved").write_text(f"two of {'0' * 64} by Ada\n")
    with pytest.raises(ApprovalMissing, match="line 1 of approved is for plan 000000000000") as paused:
        here.runner(plan).run()
    assert f"'two of {plan.hash}'" in paused.value.remedy
    assert here.files() == {"file-1"}
    assert "approved two" not in here.events()


def test_approval_by_file_is_read_while_the_run_waits(here: Setting) -> None:
    plan = here.plan(steps=(ONE, replace(TWO, approval=True)))
    timer = threading.Timer(0.2, (here.folder / "approved").write_text, [f"two of {plan.hash}\n"])
    timer.start()
    here.runner(plan, permissions=Permissions(approval_wait_s=10)).run()
    timer.join()
    assert "approved two" in here.events()


def test_abort_ends_a_wait_and_rolls_back(here: Setting) -> None:
    here.two.waits_s = 30
    here.two.when_acting = partial(Abort(here.folder).request, "another operator")
    began = time.monotonic()
    with pytest.raises(Aborted, match="another operator asked for it") as stopped:
        here.runner(here.plan()).run()
    assert time.monotonic() - began < ABORT_S
    assert stopped.value.exit_code == 8
    assert here.files() == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_aborts_and_survives_the_process(here: Setting, number: signal.Signals) -> None:
    here.two.waits_s = 30
    before = signal.getsignal(number)
    here.two.when_acting = partial(os.kill, os.getpid(), number)
    with pytest.raises(Aborted, match=f"{number.name} asked for it"):
        here.runner(here.plan()).run()
    assert signal.getsignal(number) is before
    assert (here.folder / "abort").read_text() == f"{number.name}\n"
    assert here.files() == set()


def test_resume_after_an_abort_clears_the_abort(here: Setting) -> None:
    plan = here.plan(rollback=Rollback.NEVER)
    Abort(here.folder).request("an operator")
    with pytest.raises(Aborted, match="Every change was undone"):
        here.runner(plan).run()
    here = replace(here, folder=here.root / "again")
    here.folder.mkdir()
    here.two.waits_s = 30
    here.two.when_acting = partial(Abort(here.folder).request, "an operator")
    with pytest.raises(Aborted, match="not undone: one"):
        here.runner(plan).run()
    here.two = replace(here.two, waits_s=0, when_acting=lambda: None)
    here.runner(plan).run(resume=True)
    assert here.files() == {"file-1", "file-2"}


def on_a_lab_of_its_own(here: Setting) -> None:
    Request(runbook=Path("/books/tiny.yaml"), lab_dir=here.root, lab_ends=True).write(here.folder)


def test_abort_on_a_lab_of_its_own_proposes_only_to_start_it_again(here: Setting) -> None:
    on_a_lab_of_its_own(here)
    here.two.waits_s = 30
    here.two.when_acting = partial(Abort(here.folder).request, "SIGINT")
    with pytest.raises(Aborted, match="not undone: one") as stopped:
        here.runner(here.plan(rollback=Rollback.NEVER)).run()
    assert stopped.value.remedy.endswith("Start it again: drlib run tiny --lab")
    assert "Resume" not in str(stopped.value)
    assert "--rollback" not in str(stopped.value)


def test_pause_on_a_lab_of_its_own_proposes_only_to_start_it_again(here: Setting) -> None:
    on_a_lab_of_its_own(here)
    with pytest.raises(ApprovalMissing) as paused:
        here.runner(here.plan(steps=(ONE, replace(TWO, approval=True)))).run()
    assert paused.value.remedy.endswith("its clusters end with it. Start it again: drlib run tiny --lab")


def test_step_that_does_not_end_is_left_and_probed_on_resume(here: Setting) -> None:
    here.two.hangs_s = ABORT_S + 1.5
    plan = here.plan()
    here.two.when_acting = partial(Abort(here.folder).request, "an operator")
    began = time.monotonic()
    with pytest.raises(Aborted, match=r"did not end within 2 s"):
        here.runner(plan).run()
    assert time.monotonic() - began < ABORT_S + 1
    assert here.files() == {"file-1"}  # nothing is undone while it may still act
    for thread in threading.enumerate():
        if thread.name == "drill-step":
            thread.join()
    with pytest.raises(Aborted):
        here.runner(plan).run(resume=True)
    assert here.files() == set()


# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rollback", [Rollback.NEVER, Rollback.ALWAYS])
@pytest.mark.parametrize("where", ["before", "after", "undo"])
@pytest.mark.parametrize("step", ["one", "two"])
def test_run_killed_in_a_step_is_resumed(here: Setting, step: str, where: str, rollback: Rollback) -> None:
    plan = here.plan(rollback=rollback)
    getattr(here, step).kills = where
    if where == "undo" and rollback is Rollback.NEVER:
        here.runner(plan).run()
    else:
        with pytest.raises(Killed):
            here.runner(plan).run()
        here.runner(plan).run(resume=True)
    assert here.files() == (set() if rollback is Rollback.ALWAYS else {"file-1", "file-2"})


@pytest.mark.parametrize("fails", [False, True])
def test_run_killed_at_any_journal_line_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    whole = journal.DrillJournal.write

    def attempt(number: int) -> tuple[set[str], str, int]:
        root = tmp_path / f"{fails}-{number}"
        (root / "run").mkdir(parents=True)
        here = Setting(root, root / "run", WriteFile(root / "file-1"), WriteFile(root / "file-2"))
        here.two.fails = "before" if fails else ""
        plan, written, code = here.plan(), 0, -1

        def write(self: journal.DrillJournal, event: str, **data: journal.Scalar) -> None:
            nonlocal written
            written += 1
            if written == number:
                raise Killed
            whole(self, event, **data)

        monkeypatch.setattr(journal.DrillJournal, "write", write)
        for _ in range(3):
            try:
                begun = (here.folder / JOURNAL).exists() and journal.read(here.folder / JOURNAL)
                here.runner(plan).run(resume=bool(begun))
                code = 0
            except Killed:
                continue
            except UsageError:  # it was killed after its last line
                break
            except DrlibError as error:
                code = error.exit_code
            break
        ended = json.dumps([line.data for line in journal.read(here.folder / JOURNAL) if line.event == "run-ended"])
        assert ended.count('"detail"') == 1
        return here.files(), ended, code

    expected = attempt(0)
    assert expected[0] == (set() if fails else {"file-1", "file-2"})
    for number in range(1, 10):
        assert attempt(number) == expected


# -- the flow's state --------------------------------------------------------------------------------------------------


@dataclass
class Noticeboard:
    """Where a flow stands, for runs of this process only."""

    state: DrillState = DrillState.READY
    run_id: str = ""
    lost: bool = False
    record: LeaseRecord = field(default_factory=LeaseRecord)
    others: LeaseRecord | None = None  # the opposite flow's
    confirmed: list[tuple[str, ...]] = field(default_factory=list)
    kills: list[DrillState] = field(default_factory=list)  # the process dies as it says so, before it is said

    def __post_init__(self) -> None:
        if self.record == LeaseRecord():
            self.record = LeaseRecord(state=self.state, run=self.run_id)
        self.state, self.run_id = self.record.state, self.record.run

    def opposite(self) -> LeaseRecord | None:
        return self.others

    def confirm(self, standing: Sequence[str] | None = None) -> None:
        if self.lost:
            raise LeaseHeld("the lease was lost", "another operator", "Stop.")
        self.confirmed.append(tuple(standing or ()))

    def write(
        self,
        state: DrillState,
        *,
        mode: Mode | None = None,
        standing: Sequence[str] = (),
        superseded: Sequence[Superseded] | None = None,
    ) -> None:
        self.confirm()
        if state in self.kills:
            self.kills.remove(state)
            raise Killed
        past = self.record.superseded if superseded is None else tuple(superseded)
        self.record = LeaseRecord(state=state, run="run", mode=mode, standing=tuple(standing), superseded=past)
        self.state, self.run_id = state, "run"


def test_run_changes_the_state_of_the_flow(here: Setting) -> None:
    flow = Noticeboard()
    here.runner(here.plan(), flow=flow).run()
    assert flow.state is DrillState.FAILED_OVER


def test_run_in_a_wrong_flow_state_is_refused_with_the_allowed_commands(here: Setting) -> None:
    with pytest.raises(UsageError, match=r"'reprotect' is not possible.*ready.*Allowed now: test, fail-over"):
        here.runner(here.plan(activity=DrillEvent.REPROTECT), flow=Noticeboard(DrillState.READY)).run()
    assert here.files() == set()


def test_run_unfinished_leaves_the_flow_incomplete_for_itself_only(here: Setting) -> None:
    flow = Noticeboard()
    here.two.fails = "before"
    plan = here.plan(rollback=Rollback.NEVER)
    with pytest.raises(Deviated):
        here.runner(plan, flow=flow).run()
    assert flow.state is DrillState.INCOMPLETE
    with pytest.raises(UsageError, match="by run another"):
        here.runner(plan, flow=Noticeboard(DrillState.INCOMPLETE, "another")).run(resume=True)
    here.two.fails = ""
    here.runner(plan, flow=flow).run(resume=True)
    assert flow.state is DrillState.FAILED_OVER


def test_run_that_lost_its_lease_changes_nothing_more(here: Setting) -> None:
    flow = Noticeboard()

    class Losing(WriteFile):
        def act(self, changes: Changes, abort: Abort) -> Evidence:
            flow.lost = True
            return super().act(changes, abort)

    here.one = Losing(here.one.path)
    with pytest.raises(LeaseHeld):
        here.runner(here.plan(), flow=flow).run()
    assert here.files() == {"file-1"}
    assert "act" not in here.two.called
    assert "undo" not in here.one.called


@pytest.mark.parametrize("where", [DrillState.RUNNING, DrillState.FAILED_OVER])
def test_run_killed_before_writing_the_flow_state_writes_it_on_resume(here: Setting, where: DrillState) -> None:
    flow = Noticeboard(kills=[where])
    plan = here.plan()
    with pytest.raises(Killed):
        here.runner(plan, flow=flow).run()
    assert here.runner(plan, flow=flow).run(resume=True).ending.standing == ("one", "two")
    assert flow.state is DrillState.FAILED_OVER
    assert here.one.called.count("act") == 1
    with pytest.raises(UsageError, match="is over"):
        here.runner(plan, flow=flow).run(resume=True)


def test_run_killed_before_writing_its_failure_is_resumed(here: Setting) -> None:
    flow = Noticeboard(kills=[DrillState.INCOMPLETE])
    here.two.fails = "before"
    plan = here.plan(rollback=Rollback.NEVER)
    with pytest.raises(Killed):
        here.runner(plan, flow=flow).run()
    here.two.fails = ""
    here.runner(plan, flow=flow).run(resume=True)
    assert flow.state is DrillState.FAILED_OVER


@pytest.mark.parametrize("killed", [False, True])
def test_run_supersedes_once_also_when_it_is_killed_as_it_does(here: Setting, killed: bool) -> None:
    gone = LeaseRecord(state=DrillState.TEST_INCOMPLETE, run="old", standing=("shadow",))
    flow = Noticeboard(record=gone, kills=[DrillState.RUNNING] if killed else [])
    new = Beginning(run="run", command=DrillEvent.FAIL_OVER, mode=Mode.EMERGENCY, supersede="old")
    told: list[str] = []
    plan = here.plan(mode=Mode.EMERGENCY)

    def note(record: LeaseRecord) -> str:
        told.append(record.run)
        return "done"

    def run(resume: bool) -> Result:
        runner = here.runner(plan, flow=flow, new=new, on_superseded=note)
        return runner.run(resume=resume)

    if killed:
        with pytest.raises(Killed):
            run(False)
        assert flow.record == gone
    assert run(killed).ending.standing == ("one", "two")
    assert told == ["old"]
    past = flow.record.superseded_by("old")
    assert past is not None
    assert past.by == "run"
    assert flow.state is DrillState.FAILED_OVER
    (line,) = (line for line in journal.read(here.folder / JOURNAL) if line.event == "supersedes")
    assert (line.data["state"], line.data["standing"], line.data["left"]) == ("test-incomplete", "shadow", "done")


def test_run_writes_down_steps_that_may_be_in_place_before_each_step(here: Setting) -> None:
    flow = Noticeboard()
    here.runner(here.plan(), flow=flow).run()
    assert ("one",) in flow.confirmed
    assert ("one", "two") in flow.confirmed
    assert flow.record.standing == ("one", "two")
    assert flow.record.mode is Mode.PLANNED


def test_superseded_run_is_neither_resumed_nor_rolled_back(here: Setting) -> None:
    here.two.fails = "before"
    plan, flow = here.plan(rollback=Rollback.NEVER), Noticeboard()
    with pytest.raises(Deviated):
        here.runner(plan, flow=flow).run()
    past = (Superseded(run="run", by="night", at_ms=5),)
    other = LeaseRecord(state=DrillState.FAILED_OVER, run="later", superseded=past)
    for more in ({"resume": True}, {"rollback": True}):
        with pytest.raises(UsageError, match="superseded by night"):
            here.runner(plan, flow=Noticeboard(record=other)).run(**more)
    assert here.files() == {"file-1"}


def test_step_of_a_run_that_lost_its_lease_is_ended_at_once(here: Setting) -> None:
    flow = Noticeboard()
    here.one.waits_s = 30

    def lose() -> None:
        while "act" not in here.one.called:
            time.sleep(0.01)
        flow.lost = True

    threading.Thread(target=lose).start()
    began = time.monotonic()
    with pytest.raises(LeaseHeld):
        here.runner(here.plan(), flow=flow).run()
    assert time.monotonic() - began < 10
    assert here.files() == set()
    assert "undo" not in here.one.called
    assert not (here.folder / "abort").exists()


def test_undo_of_a_run_that_lost_its_lease_is_left_and_probed_by_who_takes_it_up(here: Setting) -> None:
    """What supersedes a run on another host begins four seconds after it took the lease."""
    flow, plan = Noticeboard(), here.plan()
    here.two.fails, here.one.undo_hangs = "before", threading.Event()

    def lose() -> None:
        while "undo" not in here.one.called:
            time.sleep(0.01)
        flow.lost = True

    threading.Thread(target=lose).start()
    began = time.monotonic()
    with pytest.raises(LeaseHeld):
        here.runner(plan, flow=flow).run()
    assert time.monotonic() - began < 10
    assert here.events()[-1] == "undo-started one"
    here.one.path.unlink()
    here.one.undo_hangs.set()
    flow.lost = False
    with pytest.raises(DeviatedRolledBack):
        here.runner(plan, flow=flow).run(resume=True)
    assert here.one.called.count("undo") == 1
