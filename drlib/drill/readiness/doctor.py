"""The gate of every drill: how ready flows are, from the clusters and from the drills on record.

Rules: a drill is on record where its run folder has a scorecard that can be read; a broken one is counted, not believed.
A scorecard does not name clusters, so any drill of that folder counts as practice.
Not for: what is asked (`drlib.drill.readiness.observe`), what it means (`drlib.drill.readiness.checks.checks`, `readiness`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drlib.config.settings import FlowSettings, MirrorSettings
from drlib.drill.readiness.checks.checks import examine
from drlib.drill.readiness.checks.objectives import Objectives, Terms
from drlib.drill.readiness.checks.observations import Drill, Drills, Unseen
from drlib.drill.readiness.observe import look
from drlib.drill.readiness.score import Readiness
from drlib.errors import UsageError
from drlib.kafka.admin.connect import blocking
from drlib.model import Flow
from drlib.runs.scorecard import Scorecard

SCORECARD = "scorecard.json"


def doctor(
    settings: MirrorSettings,
    *,
    flow: Flow | None = None,
    objectives: Objectives | None = None,
    runs: Path = Path("runs"),
    addresses: Sequence[str] = (),
) -> tuple[Readiness, ...]:
    """How ready `flow` is, or every enabled flow, in the order of the file. `runs`: where run folders are.

    Raises `UsageError` for a flow the file does not enable; nothing that a cluster can cause.
    """
    chosen = _chosen(settings, flow)
    drills = drills_in(runs)
    terms = objectives or Objectives()

    async def all_of_them() -> list[Readiness]:
        return [
            examine(await look(settings, one, drills, addresses=addresses), _terms(settings, one, terms))
            for one in chosen
        ]

    return tuple(blocking(all_of_them()))


def drills_in(runs: Path) -> Drills | Unseen:
    """The drills on record in `runs`, newest first."""
    found, unreadable = [], []
    try:
        folders = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    except OSError as error:
        return Unseen(f"{runs} cannot be read: {error.strerror}", f"Grant this user read access to {runs}.")
    for folder in folders:
        try:
            card = Scorecard.read(folder / SCORECARD)
        except (OSError, ValueError):
            unreadable.append(folder.name)
            continue
        found.append(Drill(card.run_id or folder.name, card.runbook, card.verdict.value, card.finished_ms))
    newest = tuple(sorted(found, key=lambda drill: -drill.finished_ms))
    return Drills(str(runs), newest, tuple(unreadable))


def _chosen(settings: MirrorSettings, flow: Flow | None) -> Sequence[FlowSettings]:
    if flow is not None:
        one = settings.flow(flow.source, flow.target)
        if one.enabled:
            return [one]
        raise UsageError(
            f"flow {flow} is not enabled in {settings.path}",
            "nothing mirrors it, so nobody can fail over by it",
            f"Set '{flow}.enabled = true'.",
        )
    if not settings.enabled_flows:
        raise UsageError(
            f"nothing to look at in {settings.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    return settings.enabled_flows


def _terms(settings: MirrorSettings, flow: FlowSettings, objectives: Objectives) -> Terms:
    source, target = settings.clusters[flow.flow.source], settings.clusters[flow.flow.target]
    return Terms(
        str(settings.path),
        ",".join(source.bootstrap_servers),
        ",".join(target.bootstrap_servers),
        objectives,
        flow.retention_warning_s,
    )
