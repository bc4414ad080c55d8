"""Runs of one step each on a flow's lease: the step works on a file, slowly where a test says so. Also run as a process."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from drlib.drill.flow_state.flow_record import read_record
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Call, Change, Drill, Fact, Mode, Rollback, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.plan.states import DrillEvent, DrillState
from drlib.drill.plan.supersede import Beginning
from drlib.drill.run import planning
from drlib.drill.run.lease import Lease
from drlib.drill.run.runner import Runner
from drlib.drill.session import superseded_run
from drlib.drill.step.action import Changes, Evidence, reach
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.abort import Abort

SESSION_MS = 6000
_PROCESSES = multiprocessing.get_context("forkserver")


@dataclass
class Work:
    """Writes a file. `hangs`: it works for a minute, and writes down each 50 ms that it does. `fails`: it does not succeed."""

    folder: Path
    hangs: bool = False
    fails: bool = False

    @property
    def path(self) -> Path:
        return self.folder / "work"

    @property
    def beats(self) -> Path:
        return self.folder / "beats"

    def observe(self) -> Sequence[Fact]:
        done = self.path.exists() and self.path.read_text() == "done"
        return (Fact("work", "done" if done else None),)  # half of it changes no fact, as a group moved in part

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change("work", observed[0].value, "done"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.path.write_text("half" if self.hangs or self.fails else "done")
        end = time.monotonic() + 60
        while self.hangs and time.monotonic() < end:
            with self.beats.open("a") as file:
                file.write(f"{time.time()}\n")
            abort.wait(0.05)
        if self.fails:
            raise RuntimeError("it does not work today")
        return {}

    def probe(self, changes: Changes) -> Reach:
        return (
            Reach.PARTLY if self.path.exists() and self.path.read_text() == "half" else reach(self.observe(), changes)
        )

    def undo(self, changes: Changes) -> None:
        self.path.unlink(missing_ok=True)

    def cluster_id(self) -> str:
        return "none"


@dataclass
class Run:
    """One run in its own folder, on `flow`, whose target is `bootstrap`, and its source `source`."""

    folder: Path
    bootstrap: str
    flow: Flow
    mode: Mode = Mode.EMERGENCY
    activity: DrillEvent = DrillEvent.FAIL_OVER
    supersede: str = ""
    hangs: bool = False
    fails: bool = False
    source: str = ""
    wait_s: float = 0.0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def work(self) -> Work:
        return Work(self.folder, self.hangs, self.fails)

    @property
    def target(self) -> ClusterSettings:
        return ClusterSettings(self.flow.target, (self.bootstrap,))

    @property
    def record(self) -> LeaseRecord:
        with Cluster(self.target) as cluster:
            return read_record(cluster, self.flow)

    @property
    def state(self) -> DrillState:
        return self.record.state

    def do(self, how: str = "") -> int:
        """Run it, or "resume" or "rollback": the exit code; an error's text goes into the folder's file `error`."""
        self.folder.mkdir(exist_ok=True)
        step = Step(name="work", title="Work", action=Call("work"))
        drill = Drill(
            name="d", flow=self.flow, mode=self.mode, steps=(step,), activity=self.activity, rollback=Rollback.NEVER
        )
        actions = {"work": self.work}
        known = (self.folder / planning.PLAN_FILE).exists()
        plan = planning.read(self.folder) if known else planning.make_plan(drill, actions)
        new = Beginning(
            run=self.name, command=drill.command, mode=self.mode, supersede=self.supersede, again="drlib run x"
        )
        source = ClusterSettings(self.flow.source, (self.source,)) if self.source else None
        try:
            with Lease(
                self.target,
                self.flow,
                self.name,
                session_timeout_ms=SESSION_MS,
                wait_s=self.wait_s,
                folder=self.folder,
                source=source,
                new=new,
            ) as lease:
                runner = Runner(
                    self.folder,
                    plan,
                    actions,
                    {},
                    flow=lease,
                    new=new,
                    on_superseded=lambda gone: superseded_run.mark_and_clean_up(gone, self.name, self.target),
                )
                runner.run(resume=how == "resume", rollback=how == "rollback")
        except DrlibError as error:
            (self.folder / "error").write_text(str(error))
            return error.exit_code
        return 0

    @property
    def error(self) -> str:
        return (self.folder / "error").read_text()

    def start(self) -> ForkServerProcess:
        """In a process of its own, which works on the step when this returns."""
        self.folder.mkdir(exist_ok=True)
        process = _PROCESSES.Process(target=_process, args=(self,))
        process.start()
        until = time.monotonic() + 40
        while not self.work.beats.exists():
            assert process.exitcode is None, f"it ended: {process.exitcode}"
            assert time.monotonic() < until, "it did not begin"
            time.sleep(0.02)
        return process


def _process(run: Run) -> None:
    sys.exit(run.do())


def events(run: Run) -> list[str]:
    """The events of its journal, with their step or detail."""
    lines = [json.loads(line) for line in (run.folder / "journal.jsonl").read_text().splitlines()]
    return [f"{line['event']} {line['data'].get('step') or line['data'].get('detail')}" for line in lines]
