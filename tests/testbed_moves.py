"""Drills that move applications, run by processes of their own that may die at a line of their journal.

`in_process(folder, drill, place)` runs or takes up the drill in `folder`; `kill` is the number of lines it writes before it
sends SIGKILL to itself, 0 for never.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call, Drill, Mode, Rollback, Step
from drlib.drill.run import planning, registry
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.runner import Runner
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError
from drlib.lab.lab import ONE_BROKER, Lab
from drlib.model import Flow
from drlib.runs.journal import JOURNAL, DrillJournal

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["testbed_moves"])


@dataclass(frozen=True)
class Place:
    """A lab's folder, or a properties file and a pointer file of clusters that are none."""

    lab: str = ""
    properties: str = ""
    pointer: str = ""
    source: str = "LEFT"
    target: str = "RIGHT"

    def workplace(self, folder: Path) -> DrillContext:
        flow = Flow(self.source, self.target)
        if not self.lab:
            path = Path(self.properties)
            clusters = load_mirror_settings(path).clusters
            pointer = Path(self.pointer) if self.pointer else None
            return DrillContext(clusters=clusters, flow=flow, run_dir=folder, properties=path, pointer=pointer)
        lab = Lab.attach(Path(self.lab))
        file = lab.root / "connect-mirror-maker.properties"
        return DrillContext(
            clusters={alias: cluster.settings() for alias, cluster in lab.clusters.items()},
            flow=flow,
            run_dir=folder,
            properties=file if file.exists() else lab.write_properties(),
            lab=lab,
            pointer=lab.root / "pointer.json",
        )


def one_way_file(left: Lab, right: Lab, topics: str, more: Mapping[str, str] = MappingProxyType({})) -> Path:
    """The properties file, in the first one's folder, of a flow from LEFT to RIGHT, which are alone in a lab each. `more`: keys
    that are added, or have other values."""
    keys = {
        "clusters": "LEFT,RIGHT",
        "LEFT.bootstrap.servers": left.clusters["LEFT"].bootstrap,
        "RIGHT.bootstrap.servers": right.clusters["RIGHT"].bootstrap,
        "LEFT->RIGHT.enabled": "true",
        "LEFT->RIGHT.topics": topics,
        "RIGHT->LEFT.enabled": "false",
        "RIGHT->LEFT.emit.heartbeats.enabled": "false",
        **ONE_BROKER,
        "drlib.metrics.address": "127.0.0.1:0",
        **more,
    }
    file = left.root / "mirror.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return file


def step(name: str, action: str, **arguments: str | int | float | bool | tuple[str, ...]) -> Step:
    return Step(name=name, title=name, action=Call(action, tuple(Argument(k, v) for k, v in arguments.items())))


def drill(*steps: Step, mode: Mode = Mode.PLANNED, rollback: Rollback = Rollback.NEVER) -> Drill:
    return Drill(name="moving", flow=Flow("LEFT", "RIGHT"), mode=mode, steps=steps, rollback=rollback)


def run(folder: str, wanted: Drill, place: Place, how: str, kill: int) -> None:
    """Exits with the error's own exit code."""
    _arm(kill)
    path = Path(folder)
    try:
        actions = registry.parse_drill(wanted).bind(place.workplace(path))[0]
        if not (path / planning.PLAN_FILE).exists():
            planning.write(planning.make_plan(wanted, actions), path)
        runner = Runner(path, planning.read(path), actions, {}, permissions=Permissions(lab=True))
        runner.run(resume=how == "resume", rollback=how == "rollback")
    except DrlibError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def in_process(
    folder: Path, wanted: Drill, place: Place, *, how: str = "", kill: int = 0, deadline_s: float = 120
) -> int:
    """The exit code, -9 when it was killed."""
    how = how or ("resume" if (folder / JOURNAL).exists() else "run")
    process = _PROCESSES.Process(target=run, args=(str(folder), wanted, place, how, kill))
    process.start()
    process.join(deadline_s)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def _arm(kill: int) -> None:
    left, whole = kill, DrillJournal.write

    def write(self: DrillJournal, event: str, **data: str | int | float | bool | None) -> None:
        nonlocal left
        whole(self, event, **data)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    DrillJournal.write = write  # type: ignore[method-assign]
