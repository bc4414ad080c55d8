"""Opens an analysis in a notebook: its clusters, its folder of evidence, and a line that shows the progress of Spark jobs.

Rules: nothing is changed on the clusters of a properties file; a lab without the analysis's topics gets a little traffic.
Spark starts at once, in the background. A refused analysis closes what was opened for it.
Every opener takes the clusters in the same three parameters: `properties`, a mirror's file, or `lab_dir`, a lab's folder, and
`flow`, as "SOURCE->TARGET"; "" is the only enabled flow of a file, and on a lab that from its first cluster to its second.
`run_dir` is the folder of evidence, "" for a new one under ../runs. `topics` are names on the source, none for all that the
flow mirrors. `master` is Spark's; one of a standalone cluster has to answer. Each raises `UsageError` for an argument that is
wrong, `Unreachable`, and `MissingDependency` when the lab cannot be started.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from drlib.analysis.sessions.analysed_flow import AnalysedFlow, open_flow
from drlib.analysis.sessions.continuous_audit import ContinuousAudit, close_former
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.lag_analysis import LagAnalysis
from drlib.analysis.sessions.lag_practice import prepare_lag_practice
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession
from drlib.arguments import checked
from drlib.errors import UsageError
from drlib.mirror.spark.driver import reach
from drlib.runs import folder
from drlib.ui.terminal.progress_bar import LiveBar

Session = TypeVar("Session", bound=AnalysisSession)
NotNegative = Annotated[float, Field(ge=0)]


@checked
def open_duplicates_audit(
    run_dir: str | Path = "",
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "",
    topics: Sequence[str] = (),
    allow: Sequence[str] = (),
    histories: Sequence[str] = (),
    master: str = "local[2]",
    plant: bool = False,
    name: str = "duplicates-audit",
) -> DuplicatesAudit:
    """Find duplicates in the mirror topics of `flow`.

    `allow` names causes that are no failure. `histories` are files of applications that log what they process. `plant`:
    on a lab, duplicates of each cause are planted in topics of their own, and the audit passes when it finds exactly those;
    nothing is planted on clusters of a file.
    """
    analysed = open_flow(properties, lab_dir, flow, plant=plant)
    return _open(
        lambda run: DuplicatesAudit(run, allow=allow, histories=histories), analysed, run_dir, name, topics, master
    )


@checked
def open_nightly_audit(
    run_dir: str | Path = "",
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "",
    topics: Sequence[str] = (),
    lag_seconds: NotNegative = 300.0,
    reread_allowed: Annotated[int, Field(ge=0)] = 0,
    master: str = "local[2]",
    name: str = "nightly-audit",
) -> NightlyAudit:
    """Compare the topics of `flow` on both clusters, record by record.

    Records not mirrored yet are no loss while they span at most `lag_seconds`; a checkpoint may have `reread_allowed` records
    read again.
    """
    analysed = open_flow(properties, lab_dir, flow)
    return _open(
        lambda run: NightlyAudit(run, lag_seconds=lag_seconds, reread_allowed=reread_allowed),
        analysed, run_dir, name, topics, master,
    )  # fmt: skip


@checked
def open_continuous_audit(
    run_dir: str | Path = "",
    *,
    state: str | Path = "",
    properties: str = "",
    lab_dir: str = "",
    flow: str = "",
    topics: Sequence[str] = (),
    bucket_seconds: float = 60.0,
    lag_seconds: NotNegative = 300.0,
    master: str = "local[2]",
    name: str = "continuous-audit",
) -> ContinuousAudit:
    """Follow both clusters of `flow` and compare them in buckets of time, resuming from the folder `state`.

    With `properties` the folder has to be given: a run without it knows nothing of records that have expired since. On a lab it
    is in the run's folder by default. A bucket may stay unequal for `lag_seconds` after it last changed, where the mirror has
    not passed it yet. An audit that this process has open on `state` is closed first, as when a cell is run twice. Raises
    `LeaseHeld` while another process works on it.
    """
    if properties and not state:
        raise UsageError(
            "state is not set", "the audit keeps its sums in this folder for the next run", "Set it: -p state=FOLDER."
        )
    if str(state) or str(run_dir):
        close_former(Path(state).expanduser() if str(state) else Path(run_dir).expanduser() / "following")
    analysed = open_flow(properties, lab_dir, flow)

    def build(run: AnalysisRun) -> ContinuousAudit:
        state_dir = folder.opened(state, name) if str(state) else run.run_dir / "following"
        return ContinuousAudit(run, state_dir, bucket_seconds=bucket_seconds, lag_seconds=lag_seconds)

    return _open(build, analysed, run_dir, name, topics, master)


@checked
def open_lag_analysis(
    run_dir: str | Path = "",
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "",
    topics: Sequence[str] = (),
    window: str = "24h",
    objective: str = "",
    horizon: str = "24h",
    master: str = "local[2]",
    slow_group: bool = True,
    name: str = "lag-report",
) -> LagAnalysis:
    """Measure the lag of `flow` and of the groups on both sides, now and over the last `window`.

    `objective` is the age agreed on for the mirror, `horizon` how early a loss counts as a failure. A lab gets some traffic
    first, with a group that falls behind unless `slow_group` is false.
    """
    analysed = (
        open_flow(properties, lab_dir, flow) if properties else prepare_lag_practice(lab_dir, flow, slow=slow_group)
    )
    return _open(
        lambda run: LagAnalysis(run, window=window, objective=objective, horizon=horizon),
        analysed, run_dir, name, topics, master,
    )  # fmt: skip


def _open(
    build: Callable[[AnalysisRun], Session],
    analysed: AnalysedFlow,
    run_dir: str | Path,
    name: str,
    topics: Sequence[str],
    master: str,
) -> Session:
    """Build the session in its folder; close `analysed` if that fails."""
    with ExitStack() as undo:
        undo.callback(analysed.close)
        reach(master)
        path = folder.opened(run_dir, name)
        session = build(AnalysisRun(name, path, analysed, topics, master, LiveBar()))
        undo.pop_all()
        return session
