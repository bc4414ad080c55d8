"""Opening an analysis in a notebook: where it looks, where its evidence goes, and a line that says how far it is.

Rules: nothing is changed on clusters of a properties file; a lab gets a little traffic where it has none of it. Spark is
started at once, beside whatever is done next. A refusal stops what was started for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from drlib.analysis.sessions.continuous_audit import ContinuousAudit
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.lag_analysis import LagAnalysis
from drlib.analysis.sessions.lag_practice import practised
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.place import AnalysisPlace, find_place
from drlib.errors import UsageError
from drlib.runs import folder
from drlib.ui.terminal.progress_bar import LiveBar


def open_duplicates_audit(
    run_dir: str | Path = "",  # empty: a new folder under ../runs
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "LEFT->RIGHT",
    topics: Sequence[str] = (),
    allow: Sequence[str] = (),
    histories: Sequence[str] = (),
    master: str = "local[2]",
    plant: bool = False,
    name: str = "duplicates-audit",
) -> DuplicatesAudit:
    """Look for duplicates in the mirror topics of `flow`: those of `topics`, named as on the source, or all.

    `allow` names causes that are no failure. `plant` has duplicates written into a lab's own traffic. Raises `UsageError`
    for what is wrong with any of it, `MissingDependency` when the lab cannot be started.
    """
    place = find_place(properties, lab_dir, flow, plant=plant)
    with _closed_on_refusal(place):
        return DuplicatesAudit(
            _folder(run_dir, name),
            place,
            topics,
            name=name,
            allow=allow,
            histories=histories,
            master=master,
            tell=LiveBar(),
        )


def open_nightly_audit(
    run_dir: str | Path = "",  # empty: a new folder under ../runs
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "LEFT->RIGHT",
    topics: Sequence[str] = (),
    lag_seconds: float = 300.0,
    reread_allowed: int = 0,
    master: str = "local[2]",
    name: str = "nightly-audit",
) -> NightlyAudit:
    """Compare both clusters of `flow`: those of `topics`, named as on the source, or all.

    Records yet to cross are no loss while they span at most `lag_seconds`; a checkpoint may have `reread_allowed` records
    read again. Raises `UsageError` for what is wrong with any of it, `MissingDependency` when the lab cannot be started.
    """
    place = find_place(properties, lab_dir, flow)
    with _closed_on_refusal(place):
        return NightlyAudit(
            _folder(run_dir, name),
            place,
            topics,
            name=name,
            lag_seconds=lag_seconds,
            reread_allowed=reread_allowed,
            master=master,
            tell=LiveBar(),
        )


def open_continuous_audit(
    run_dir: str | Path = "",  # empty: a new folder under ../runs
    *,
    state: str | Path = "",  # empty: in the run's folder, on a lab
    properties: str = "",
    lab_dir: str = "",
    flow: str = "LEFT->RIGHT",
    topics: Sequence[str] = (),
    bucket_seconds: float = 60.0,
    lag_seconds: float = 300.0,
    master: str = "local[2]",
    name: str = "continuous-audit",
) -> ContinuousAudit:
    """Follow both clusters of `flow` and compare them in buckets of time, going on from what is in the folder `state`.

    It has to be named for clusters of a properties file, since a run that begins anew has nothing of what expired.

    A bucket may stay unequal for `lag_seconds` after it last changed, where the mirror has yet to pass it. Raises `UsageError`
    for what is wrong with any of it, `LeaseHeld` while another process works on `state`, `MissingDependency`.
    """
    if properties and not state:
        raise UsageError(
            "no folder for what is known from run to run", "the next run goes on from it", "Give one: -p state=FOLDER."
        )
    place = find_place(properties, lab_dir, flow)
    with _closed_on_refusal(place):
        folder_of_run = _folder(run_dir, name)
        return ContinuousAudit(
            folder_of_run,
            Path(state).expanduser().absolute() if state else folder_of_run / "following",
            place,
            topics,
            name=name,
            bucket_seconds=bucket_seconds,
            lag_seconds=lag_seconds,
            master=master,
            tell=LiveBar(),
        )


def open_lag_analysis(
    run_dir: str | Path = "",  # empty: a new folder under ../runs
    *,
    properties: str = "",
    lab_dir: str = "",
    flow: str = "LEFT->RIGHT",
    topics: Sequence[str] = (),
    window: str = "24h",
    objective: str = "",
    horizon: str = "24h",
    master: str = "local[2]",
    slow_group: bool = True,
    name: str = "lag-report",
) -> LagAnalysis:
    """Look at how far `flow` and the groups on both sides are behind, and were for the last `window`.

    `objective` is the age agreed on for the mirror, `horizon` how early a loss counts as a failure. On a lab some traffic is
    run first, with a `slow_group` if wanted. Raises `UsageError` for what is wrong with any of it, `Unreachable`.
    """
    place = find_place(properties, lab_dir, flow) if properties else practised(lab_dir, flow, slow=slow_group)
    with _closed_on_refusal(place):
        return LagAnalysis(
            _folder(run_dir, name),
            place,
            topics,
            name=name,
            window=window,
            objective=objective,
            horizon=horizon,
            master=master,
            tell=LiveBar(),
        )


@contextmanager
def _closed_on_refusal(place: AnalysisPlace) -> Iterator[None]:
    with ExitStack() as undo:
        undo.callback(place.close)
        yield
        undo.pop_all()


def _folder(run_dir: str | Path, name: str) -> Path:
    found = Path(run_dir).absolute() if run_dir else folder.create(Path("..") / "runs", name).path
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found
