"""The unfinished runs of flows, as people are shown them: from the state on the target, else from the folder of runs.

Rules: read-only. All targets are asked at once, and within `ANSWER_S`; one that does not answer is named, and the folder of
runs counts for its flow. Where the target answers, it alone counts: a run that it does not name was superseded or has ended.
Not for: resuming and rolling back (`drlib.runbook.plans`).
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from drlib.drill.flow_state.flow_record import read_record
from drlib.drill.flow_state.lease_holder import folder_here
from drlib.drill.plan import supersede
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import target_serves, unfinished
from drlib.drill.run import request
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import find_running
from drlib.drill.session.find_running import Run
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

ANSWER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """One run. `since_ms` (Unix ms) is when the flow entered `state`; `not_undone` are steps; `resume`, `rollback` and
    `supersede` are what a command line takes. `host` and `folder` are as recorded, empty where they are not. `refused`: the
    step whose undo failed, which whatever continues the run repeats, where its folder is here and says so."""

    flow: str
    run: str
    state: str
    mode: str
    since_ms: int
    host: str
    folder: str
    not_undone: tuple[str, ...]
    resume: str
    rollback: str
    supersede: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class UnfinishedRuns:
    """The runs, by flow why its target could not say, and the flows whose applications are on the target."""

    runs: tuple[UnfinishedRun, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    moved: frozenset[str] = frozenset()

    def of(self, flow: str) -> UnfinishedRun | None:
        """The flow's run; None where there is none, or it is unknown."""
        return next((run for run in self.runs if run.flow == flow), None)


NONE: Final = UnfinishedRuns()
Read = Callable[[ClusterSettings, Flow], LeaseRecord]


def read_state(target: ClusterSettings, flow: Flow) -> LeaseRecord:
    """The flow's record, within `ANSWER_S` for each of a few requests."""
    with Cluster(target, timeout_s=ANSWER_S) as cluster:
        return read_record(cluster, flow)


def find(
    flows: Sequence[tuple[Flow, ClusterSettings]],
    runs_dir: Path,
    place: ClusterTarget,
    *,
    down: Collection[str] = (),
    read: Read = read_state,
) -> UnfinishedRuns:
    """The unfinished runs of `flows`, each with its target's settings; `down` are aliases that need not be asked."""
    asked = [(flow, target) for flow, target in flows if target.alias not in down]
    threads = ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="unfinished-runs")
    answers = {flow: threads.submit(read, target, flow) for flow, target in asked}
    wait(answers.values(), timeout=ANSWER_S)
    threads.shutdown(wait=False, cancel_futures=True)
    runs, unknown, moved = [], [], set()
    for flow, target in flows:
        answer = answers.get(flow)
        try:
            if answer is None or not answer.done():
                raise TimeoutError
            record = answer.result()
        except TimeoutError:
            unknown.append((flow, f"{target.alias} does not answer"))
        except (DrlibError, OSError) as error:
            unknown.append((flow, str(error)))
        else:
            runs += [_recorded(flow, record)] if unfinished(record.state) else []
            moved |= {str(flow)} if target_serves(record.state) else set()
    runs += [run for flow, _ in unknown if (run := _in_folder(flow, runs_dir, place)) is not None]
    return UnfinishedRuns(tuple(runs), tuple((str(flow), why) for flow, why in unknown), frozenset(moved))


def _recorded(flow: Flow, record: LeaseRecord) -> UnfinishedRun:
    folder = folder_here(record)
    return UnfinishedRun(
        str(flow),
        record.run,
        record.state.value,
        supersede.mode_of(record).value,
        record.since_ms,
        record.host,
        record.folder,
        record.standing,
        supersede.ways_on(record).resume,
        supersede.ways_on(record).rollback,
        supersede.supersede_option(record),
        "" if folder is None else request.refused_undo(folder),
    )


def _in_folder(flow: Flow, runs_dir: Path, place: ClusterTarget) -> UnfinishedRun | None:
    """The newest run of `flow` in the folder of runs, where that has not ended."""
    try:
        run = find_running.find(runs_dir, place)
    except (DrlibError, OSError):
        return None
    if run is None or run.plan.drill.flow != flow or (run.over is not None and not run.over.resumable):
        return None
    folder = str(run.folder.resolve())
    record = LeaseRecord(run=run.folder.name, folder=folder, mode=run.plan.drill.mode)
    began = int(datetime.fromisoformat(run.lines[0].at).timestamp() * 1000) if run.lines else 0
    return UnfinishedRun(
        str(flow),
        run.folder.name,
        _word(run),
        run.plan.drill.mode.value,
        began,
        "",
        folder,
        () if run.over is None else run.over.ending.standing,
        run.ways_on.resume,
        run.ways_on.rollback,
        supersede.supersede_option(record),
        run.ways_on.refused,
    )


def _word(run: Run) -> str:
    if run.alive:
        return "running"
    if run.over is not None:
        return run.over.ending.outcome.value
    return "paused" if run.waits is not None else "not running"


def lines(found: UnfinishedRuns, now_ms: int) -> tuple[str, ...]:
    """What to show first about them: a few lines for each run, and one for each flow that is unknown; else none."""
    said = []
    for run in found.runs:
        record = LeaseRecord(since_ms=run.since_ms)
        said.append(
            f"UNFINISHED {run.flow}: run {run.run} ({run.mode}), {run.state} for {supersede.age(record, now_ms)}"
        )
        place = (
            f"its folder: {run.folder}{f' on {run.host}' if run.host else ''}"
            if run.folder
            else "its folder is not recorded"
        )
        said.append(f"  {place}; not undone: {', '.join(run.not_undone) or 'nothing is recorded'}")
        if run.refused and run.rollback:
            said.append(f"  begin a new run, its changes stay: drlib run ... {run.supersede}")
            said.append(f"  or, once nothing refuses the undo of {run.refused}: {run.rollback}")
            continue
        said.append(f"  {'continue' if run.rollback else 'start again'}: {run.resume}")
        said += [f"  undo:     {run.rollback}"] if run.rollback else []
        said.append(f"  or give it up for something more urgent: drlib run ... {run.supersede}")
    said += [f"Unfinished runs of {flow}: unknown ({why})" for flow, why in found.unknown]
    return tuple(said)
