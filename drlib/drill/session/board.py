"""What a drill's board shows: where each step is, how the flow and its groups stand, taken from journal and clusters.

Rules: the journal says where the steps are; the clusters are asked on a thread of its own, about once a second, never by
what waits for a step; what could not be asked is stated, with how old the last answer is. Nothing here draws.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.plan.plan import Drill, Plan, value_words
from drlib.drill.plan.progress import Noted, missing_approvals
from drlib.drill.run.approvals import Approvals
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError
from drlib.lab.environment import Banner
from drlib.lab.workload import mirrors
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.polling_thread import PollingThread
from drlib.mirror.monitor.survey import Survey
from drlib.runs.journal import Line

LOOK_S: Final = 1.0


class Stand(StrEnum):
    """Where a step is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDOING = "being undone"
    UNDONE = "undone"
    STOPPED = "stopped"  # it began and has no end in the journal, and nothing runs it now


@dataclass(frozen=True, slots=True)
class StepStand:
    """`seconds`: how long it took, or has run so far; None when it did not begin."""

    name: str
    title: str
    stand: Stand
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A run that is paused until `step` is approved. `changes`: what it will change, in words. `later`: steps behind it
    that wait as well. `approved_by` is empty until then; afterwards the run continues when it is asked to, and at once where
    `attended`: a cell waits with it. `plan` is the hash that an approval has to name; `refused`: why others approve
    nothing."""

    step: str
    title: str
    changes: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    approved_by: str = ""
    attended: bool = False
    plan: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoardState:
    """One moment. `survey` is None, and `unseen` says why, while the clusters have not been asked or did not answer."""

    drill: Drill
    steps: tuple[StepStand, ...]
    survey: Survey | None = None
    unseen: str = ""
    note: str = ""
    waits: Waits | None = None
    banner: Banner | None = None


def steps_of(drill: Drill, lines: Sequence[Line], now: datetime, *, alive: bool = True) -> tuple[StepStand, ...]:
    """Where every step of `drill` is, as its journal's `lines` say; `now` is UTC. `alive`: does a process run it?"""
    step_stands = {step.name: StepStand(step.name, step.title, Stand.WAITING) for step in drill.steps}
    began: dict[str, datetime] = {}
    for line in lines:
        name = str(line.data.get("step") or "")
        if line.event == Noted.ABORT_REQUESTED:  # what ran has ended by then, without a line of its own
            stopped_at = datetime.fromisoformat(line.at)
            step_stands |= {n: _at(stopped_at, s, began[n], True) for n, s in step_stands.items() if n in began}
        if name not in step_stands:
            continue
        at = datetime.fromisoformat(line.at)
        began.setdefault(name, at)
        match line.event:
            case Noted.STEP_STARTED:
                began[name] = at
                stand = Stand.RUNNING
            case Noted.STEP_SUCCEEDED:
                stand = Stand.DONE
            case Noted.STEP_FAILED | Noted.UNDO_FAILED:
                stand = Stand.FAILED
            case Noted.UNDO_STARTED:
                stand = Stand.UNDOING
            case Noted.UNDO_SUCCEEDED:
                stand = Stand.UNDONE
            case _:
                continue
        undo = stand in (Stand.UNDOING, Stand.UNDONE)
        seconds = step_stands[name].seconds if undo else (at - began[name]).total_seconds()
        step_stands[name] = StepStand(name, step_stands[name].title, stand, seconds)
    ended = not alive or bool(lines and lines[-1].event == Noted.RUN_ENDED)
    until = datetime.fromisoformat(lines[-1].at) if ended and lines else now
    return tuple(_at(until, s, began[s.name], ended) if s.name in began else s for s in step_stands.values())


def _at(until: datetime, step: StepStand, began: datetime, ended: bool) -> StepStand:
    """A step without an end lasts until now while its run does, else until the run's last line."""
    if step.stand not in (Stand.RUNNING, Stand.UNDOING):
        return step
    seconds = (until - began).total_seconds() if step.stand is Stand.RUNNING else step.seconds
    return StepStand(step.name, step.title, Stand.STOPPED if ended else step.stand, seconds)


def waits_of(
    plan: Plan,
    lines: Sequence[Line],
    granted: Collection[str],
    in_file: Approvals,
    *,
    attended: bool = False,
) -> Waits | None:
    """What the board shows while the run of `plan` is paused for an approval; None where none is missing.

    `lines`: its journal's; `granted`: steps that were approved when it was begun; `in_file`: what was approved since.
    """
    noted = {str(line.data.get("step")) for line in lines if line.event == Noted.APPROVED}
    missing = missing_approvals(plan.drill, noted)
    if not missing:
        return None
    first = next(step for step in plan.drill.steps if step.name == missing[0])
    later = tuple(name for name in missing[1:] if name not in granted and name not in in_file.by)
    changes = tuple(
        f"{c.entity}: {value_words(c.before)} -> {value_words(c.after)}" for c in plan.of(first.name).changes
    )
    by = in_file.by.get(first.name, "")
    return Waits(first.name, first.title, changes, later, by, attended, plan.hash, in_file.refused)


class FlowWatch:
    """Looks at the drill's flow until closed. `survey` is the last answer, `unseen` why there is none, or no newer.

    The flow is looked for in the file its worker was started with, which a drill may have made while the board stands.
    """

    def __init__(self, workplace: DrillContext) -> None:
        self.survey: Survey | None = None
        self.unseen = "not asked yet"
        self._workplace = workplace
        self._observer = FlowObserver(groups=True)
        self._polling = PollingThread(self._poll, name="drill-board", interval_s=LOOK_S)

    def start(self) -> None:
        """Begin to look. Safe to repeat."""
        self._polling.start()

    def close(self) -> None:
        """Stop looking. A look under way ends by itself."""
        self._polling.close()

    def _settings(self) -> MirrorSettings:
        place = self._workplace
        own = None if place.lab is None else mirrors.file_of(place.lab, place.flow)
        return place.mirror_settings() if own is None else load_mirror_settings(own)

    def _poll(self) -> None:
        flow = self._workplace.flow
        try:
            settings = self._settings()
            (self.survey,) = self._observer.survey_blocking([(settings, settings.flow(flow.source, flow.target))])
            self.unseen = ""
        except (DrlibError, OSError, TimeoutError) as error:
            self.unseen = str(error)
