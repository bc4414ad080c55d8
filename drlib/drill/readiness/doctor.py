"""How ready flows are for a failover, from the clusters and from past drills.

Rules: a past drill is a run that is verified (`drlib.drill.run.stored_run`); others are counted as unverified. A drill counts
for the flow that it names, and a rehearsal does as such; an analysis does not.
Not for: what is observed (`drlib.drill.readiness.observe`), how it is judged (`drlib.drill.readiness.checks`, `score`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.checks.checks import judge_flow
from drlib.drill.readiness.checks.objectives import CheckContext, Objectives
from drlib.drill.readiness.checks.observations import FlowObservation, PastDrill, PastDrills, Unanswered
from drlib.drill.readiness.observe import observe_flow
from drlib.drill.readiness.score import Readiness
from drlib.drill.run import stored_run
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.connect import ANSWER_S, blocking
from drlib.model import Flow
from drlib.runs.check import CANARY
from drlib.runs.scorecard import Kind


def doctor(
    settings: MirrorSettings,
    *,
    flow: Flow | None = None,
    objectives: Objectives | None = None,
    runs: Path = Path("runs"),
    addresses: Sequence[str] = (),
    silent: Mapping[str, Unreachable] = MappingProxyType({}),
    answer_s: float = ANSWER_S,
) -> tuple[Readiness, ...]:
    """How ready `flow` is, or every enabled flow, in the order of the file.

    `runs` is the folder of run folders, `addresses` are workers (HOST:PORT) to ask besides those the journal names. `silent`:
    by alias, why a cluster is known not to answer; it is then not asked. `answer_s`: how long brokers may take to give a sign
    of life. Raises `UsageError` for a flow that the file does not enable; nothing that a cluster can cause.
    """
    chosen = _enabled(settings, flow)
    drills = past_drills(runs)

    async def judge(each: FlowSettings) -> Readiness:
        observed = await observe_flow(settings, each, drills, addresses=addresses, silent=silent, answer_s=answer_s)
        return judge_flow(observed, _context(settings, each, objectives or Objectives()))

    async def judge_all() -> list[Readiness]:
        return await asyncio.gather(*map(judge, chosen))

    return tuple(blocking(judge_all()))


def observed(
    settings: MirrorSettings, flow: Flow, *, runs: Path, silent: Mapping[str, Unreachable], answer_s: float = ANSWER_S
) -> tuple[FlowObservation, Readiness]:
    """What was observed of the enabled `flow`, and how ready it is by that; arguments and errors as of `doctor`."""
    (chosen,) = _enabled(settings, flow)
    seen = blocking(observe_flow(settings, chosen, past_drills(runs), silent=silent, answer_s=answer_s))
    return seen, judge_flow(seen, _context(settings, chosen, Objectives()))


def past_drills(runs: Path) -> PastDrills | Unanswered:
    """The drills in `runs`, newest first."""
    drills, unverified = [], []
    try:
        folders = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    except OSError as error:
        return Unanswered(f"{runs} cannot be read: {error.strerror}", f"Grant this user read access to {runs}.")
    for folder in folders:
        card = stored_run.read(folder).scorecard
        if card is None:
            unverified.append(folder.name)
        elif card.kind is Kind.DRILL:  # an analysis moves nothing, and shows nothing of a failover
            rehearsal = any(check.name == CANARY for check in card.checks)
            of = card.environment.get("flow", "")
            drills.append(PastDrill(card.run_id, card.runbook, card.verdict.value, card.finished_ms, of, rehearsal))
    return PastDrills(str(runs), tuple(sorted(drills, key=lambda drill: -drill.finished_ms)), tuple(unverified))


def _enabled(settings: MirrorSettings, flow: Flow | None) -> Sequence[FlowSettings]:
    if flow is not None:
        chosen = settings.flow(flow.source, flow.target)
        if chosen.enabled:
            return [chosen]
        raise UsageError(
            f"flow {flow} is not enabled in {settings.path}",
            "it is not mirrored, so there is no failover for it",
            f"Set '{flow}.enabled = true'.",
        )
    if not settings.enabled_flows:
        raise UsageError(
            f"{settings.path} enables no flow", "every flow is disabled", "Set 'A->B.enabled = true' for a flow."
        )
    return settings.enabled_flows


def _context(settings: MirrorSettings, flow: FlowSettings, objectives: Objectives) -> CheckContext:
    sides = [settings.clusters[flow.flow.source], settings.clusters[flow.flow.target]]
    source, target = (",".join(each.bootstrap_servers) for each in sides)
    return CheckContext(
        file=str(settings.path),
        source=source,
        target=target,
        command_configs={
            at: each.command_config for at, each in zip((source, target), sides, strict=True) if each.secured
        },
        objectives=objectives,
        retention_warning_s=flow.retention_warning_s,
        redirected=flow.producers_redirected,
    )
