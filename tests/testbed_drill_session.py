"""A drill of three steps on a folder, opened as often as a kernel is started."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drlib.drill.plan.plan import Call, Change, Drill, Expectation, Fact, Mode, Rollback, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.run import planning
from drlib.drill.run.permissions import Permissions
from drlib.drill.session.session import DrillSession, Leased
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Answer, Changes, Evidence, reach
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.ui.console.board import LiveBoard

FLOW = Flow("A", "B")


@dataclass
class MakeFile:
    """A step that brings a file and keeps rows and a part of the scorecard."""

    step: str
    run_dir: Path
    waits_s: float = 0.0
    fails: bool = False
    done: list[str] = field(default_factory=list)
    reports: Evidence = field(default_factory=lambda: {"files": 1})

    @property
    def _path(self) -> Path:
        return self.run_dir / f"{self.step}.txt"

    def observe(self) -> Sequence[Fact]:
        return (Fact(f"file {self.step}", "there" if self._path.exists() else None),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change(f"file {self.step}", None, "there"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.done.append(self.step)
        abort.wait(self.waits_s)
        if self.fails:
            raise Deviated("it did not work", "it was made to fail", "Let it succeed.")
        self._path.write_text("x")
        details.write_rows(self.run_dir, self.step, [{"file": self.step, "records": 1234}])
        details.write_part(self.run_dir, self.step, ScorecardPart(environment={self.step: "done"}))
        return self.reports

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        self._path.unlink(missing_ok=True)

    def cluster_id(self) -> str:
        return "none"


@dataclass
class Stage:
    """One drill of three steps in `run_dir`, opened as often as a kernel is started."""

    run_dir: Path
    rollback: Rollback = Rollback.NEVER
    approval: str = ""
    waits: str = ""
    fails: str = ""
    holds: bool = True
    done: list[str] = field(default_factory=list)
    board: LiveBoard | None = None
    properties: Path | None = None
    reports: Evidence = field(default_factory=lambda: {"files": 1})

    def open(self, lease: Leased = nullcontext, **permissions: Any) -> DrillSession:
        names = ("one", "two", "three")
        steps = tuple(Step(name=n, title=f"Step {n}", action=Call("make"), approval=n == self.approval) for n in names)
        hypothesis = (Expectation("all is well", Call("well")),)
        drill = Drill(
            name="d", flow=FLOW, mode=Mode.PLANNED, steps=steps, hypothesis=hypothesis, rollback=self.rollback
        )
        actions = {
            n: MakeFile(n, self.run_dir, 30.0 if n == self.waits else 0.0, n == self.fails, self.done, self.reports)
            for n in names
        }
        plan = (
            planning.read(self.run_dir)
            if (self.run_dir / planning.PLAN_FILE).exists()
            else planning.make_plan(drill, actions)
        )
        planning.write(plan, self.run_dir)
        place = DrillContext(clusters={}, flow=FLOW, run_dir=self.run_dir, properties=self.properties)
        probes = {"all is well": lambda _: Answer(self.holds, "looked")}
        granted = Permissions(lab=True, **permissions)
        return DrillSession(plan, place, actions, probes, lease=lease, permissions=granted, board=self.board)
