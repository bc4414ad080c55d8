"""What a run was asked to be: `run.json` in its folder, so that it can be resumed with the same parameters.

Rules: it holds what was given and nothing that was found: the runbook's path, parameters, where the clusters are, and what
was granted. Secrets are references, as everywhere. It appears whole or not at all, and what is granted later is added.
Not for: what the drill would change (`planning`), and what it did (`journal`).
"""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from drlib.drill.plan.progress import Noted
from drlib.drill.plan.ways_on import WaysOn
from drlib.errors import DrlibError, UsageError
from drlib.files import read_json, write_whole
from drlib.runs import journal

REQUEST_FILE: Final = "run.json"
Scalar = bool | int | float | str
_OF_UNDO: Final = frozenset({Noted.UNDO_FAILED, Noted.UNDO_SUCCEEDED, Noted.RUN_RESUMED})


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """Where the clusters are: a properties file or a running lab, never both; neither where the notebook says it.

    `lab_ends`: the lab was started for this run alone, and ends with it.
    """

    properties: Path | None = None
    lab_dir: Path | None = None
    lab_ends: bool = False

    def __post_init__(self) -> None:
        if self.properties is not None and self.lab_dir is not None:
            raise UsageError("FILE and a lab", "a drill runs on one of them", "Give only one.")

    @classmethod
    def of(cls, properties: str | Path, lab_dir: str | Path) -> Self:
        """As a notebook gives them: empty is not given."""
        file, lab = (Path(path) if str(path) else None for path in (properties, lab_dir))
        return cls(file, lab)


class Request(BaseModel):
    """`parameters` are those given for this run; the runbook's own are in the runbook. Paths are absolute.

    `gate` is the result of the readiness gate at `gate_ms`, in words; empty where it was not checked.
    `supersede` is the unfinished run of the flow that this one gives up; empty for none.
    `plan` is the hash of the plan that was granted; empty until there is one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runbook: Path
    parameters: dict[str, Scalar | list[Scalar]] = {}
    properties: Path | None = None
    lab_dir: Path | None = None
    lab_ends: bool = False
    approved: tuple[str, ...] = ()
    cluster_ids: tuple[str, ...] = ()
    skip_gate: str | None = None
    supersede: str = ""
    gate: str = ""
    gate_ms: int = 0
    plan: str = ""

    @property
    def target(self) -> ClusterTarget:
        return ClusterTarget(self.properties, self.lab_dir, self.lab_ends)

    def ways_on(self, run: str) -> WaysOn:
        """How to go on with it, as the run `run`."""
        return WaysOn(run, self.again(self.runbook.stem) if self._lab_is_gone else "")

    def require_lab(self, run: str) -> None:
        """Raises `UsageError` where the lab of `run` is gone: there is nothing to resume or to roll back."""
        if again := self.ways_on(run).again:
            raise UsageError(
                f"{run} cannot be resumed or rolled back",
                "its clusters are gone with the lab that it ran on",
                f"Start it again: {again}",
            )

    @property
    def command(self) -> str:
        """The command line that asks for the same again, without what was granted."""
        return self._line(str(self.runbook), lab=False)

    def again(self, runbook: str) -> str:
        """The same for `runbook` as it is typed, on a new lab where that of the run is gone."""
        return self._line(runbook, lab=self._lab_is_gone)

    @property
    def _lab_is_gone(self) -> bool:
        return self.lab_dir is not None and (self.lab_ends or not self.lab_dir.exists())

    def _line(self, runbook: str, *, lab: bool) -> str:
        place = [shlex.quote(str(self.properties))] if self.properties else []
        place += [f"--lab-dir {shlex.quote(str(self.lab_dir))}"] if self.lab_dir and not lab else []
        place += ["--lab"] if lab else []
        return " ".join(("drlib run", shlex.quote(runbook), *place, *self._given))

    @property
    def _given(self) -> list[str]:
        return [f"-p {shlex.quote(f'{name}={_written(value)}')}" for name, value in self.parameters.items()]

    def granted(self, approved: Iterable[str], cluster_ids: Iterable[str]) -> "Request":
        """The same, with more steps approved and more cluster IDs typed."""
        return self.model_copy(
            update={
                "approved": tuple(dict.fromkeys((*self.approved, *approved))),
                "cluster_ids": tuple(dict.fromkeys((*self.cluster_ids, *cluster_ids))),
            }
        )

    def of_plan(self, plan: str) -> "Request":
        """The same for the plan with the hash `plan`. Raises `UsageError` where another one was granted."""
        if self.plan and self.plan != plan:
            raise UsageError(
                f"what {REQUEST_FILE} grants is not for this plan",
                f"it is for plan {self.plan[:12]}, and the run's is {plan[:12]}",
                "Make a new plan, and approve that.",
            )
        return self.model_copy(update={"plan": plan})

    def write(self, folder: Path) -> Path:
        """Put it into `folder` in one move."""
        path = folder / REQUEST_FILE
        write_whole(path, self.model_dump_json(indent=1) + "\n")
        return path


def _written(value: Scalar | list[Scalar]) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def find(folder: Path) -> Request | None:
    """What the run in `folder` was asked to be; None when the command line did not begin it. Raises `UsageError`."""
    path = folder / REQUEST_FILE
    try:
        return read_json(path, Request, "Make a new plan.")
    except FileNotFoundError:
        return None


def ways_on(folder: Path, run: str = "") -> WaysOn:
    """How to go on with the run in `folder`, named `run` in commands, by default by the folder."""
    run = run or shlex.quote(str(folder))
    try:
        asked = find(folder)
    except UsageError:  # what it was asked to be cannot be read
        asked = None
    on = WaysOn(run) if asked is None else asked.ways_on(run)
    new = "the same command" if asked is None else asked.command
    return replace(on, refused=refused_undo(folder), instead=f"{new} --supersede {shlex.quote(folder.name)}")


def refused_undo(folder: Path) -> str:
    """The step at whose undo the run in `folder` stopped; empty where it did not, or its journal does not say."""
    try:
        lines = journal.read(folder / journal.JOURNAL)
    except (DrlibError, OSError):
        return ""
    last = next((line for line in reversed(lines) if line.event in _OF_UNDO), None)
    return str(last.data.get("step", "")) if last is not None and last.event == Noted.UNDO_FAILED else ""
