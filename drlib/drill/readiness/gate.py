"""The readiness gate of a drill: while it is closed, no step of the drill runs.

Rules: the gate is checked before the first step of a drill on a properties file, and of a lab drill whose mirror already
runs. A lab drill that starts the mirror itself has its steady-state hypothesis instead. A resumed run is not checked again:
its own steps may be what makes the flow unready. In an emergency whose source does not answer, only findings about the
target close the gate. On the way back the flow that is judged is the opposite one, since the drill's own flow is failed over:
before `reprotect`, which sets that flow going, only by `BEFORE_REPROTECT`; before `fail-back` in full. Only an emergency may
skip it, with a reason that journal and scorecard keep.
Not for: observing and judging (`drlib.drill.readiness.doctor`, `drlib.drill.readiness.score`).
"""

from pathlib import Path
from typing import Final

from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillEvent
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM, Readiness, Severity, gate, gate_without_source
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import ask_in_run
from drlib.errors import ReadinessError, Unreachable, UsageError

SKIPPED: Final = "skipped: "
BEFORE_REPROTECT: Final = ("source-answers", "target-answers", "cluster-ids", "rights")
"""Checks of what a reprotect needs and does not itself bring about."""


def refuse_skip(mode: Mode, reason: str | None) -> None:
    """Raises `UsageError` where the gate may not be skipped, or the reason is empty. `reason` None: it is not skipped."""
    if reason is None:
        return
    if mode is not Mode.EMERGENCY:
        raise UsageError(
            f"the readiness gate of a {mode} drill cannot be skipped",
            "only an emergency drill may run on a flow that is not ready",
            "Fix what drlib doctor reports, or run an emergency drill.",
        )
    if not reason.strip():
        raise UsageError("the readiness gate is not skipped", "no reason was given", "Give one: --skip-gate 'REASON'.")


def pass_gate(
    context: DrillContext,
    mode: Mode,
    *,
    skip: str | None = None,
    activity: DrillEvent = DrillEvent.FAIL_OVER,
    judged: Readiness | None = None,
) -> str:
    """The outcome of the gate as text, "" where the drill has none. `skip` is the reason to skip it. `judged`: how ready
    the flow was found a moment ago, so that an emergency does not ask both clusters once more.

    Raises `ReadinessError` when it is closed, `UsageError` for a skip that is not allowed.
    """
    refuse_skip(mode, skip)
    if not _has_gate(context):
        return ""
    if skip is not None:
        return SKIPPED + " ".join(skip.split())
    past_runs = context.run_dir.parent
    if activity in (DrillEvent.REPROTECT, DrillEvent.FAIL_BACK):
        return _pass_on_way_back(context, activity, past_runs)
    readiness = judged if judged is not None and mode is Mode.EMERGENCY else _readiness(context, mode, past_runs)
    try:
        if mode is Mode.EMERGENCY and readiness.source_silent:
            gate_without_source(readiness)
            left_open = f"; not determined: {', '.join(readiness.not_determined)}" if readiness.not_determined else ""
            stands = "tells this host nothing" if readiness.source_refused else "is gone"
            return f"open: the source of {readiness.flow} {stands}, and the target can take over{left_open}"
        gate([readiness], MINIMUM)
    except ReadinessError as closed:
        hint = " In an emergency: --skip-gate REASON." if mode is Mode.EMERGENCY else ""
        raise ReadinessError(closed.what, closed.why, closed.remedy + hint) from None
    return f"open: {readiness.flow} scores {readiness.score} of 100, {MINIMUM} required"


def _readiness(context: DrillContext, mode: Mode, past_runs: Path) -> Readiness:
    silent: dict[str, Unreachable] = {}
    if mode is Mode.EMERGENCY:  # the steps do not wait for it in full again
        answers = ask_in_run(context, [context.cluster(context.flow.source)])
        silent = {alias: answer for alias, answer in answers.items() if isinstance(answer, Unreachable)}
    (readiness,) = doctor(context.mirror_settings(), flow=context.flow, runs=past_runs, silent=silent)
    return readiness


def _pass_on_way_back(context: DrillContext, activity: DrillEvent, past_runs: Path) -> str:
    """Raises `ReadinessError` when it is closed, `UsageError` where the file does not enable the flow back."""
    (readiness,) = doctor(context.mirror_settings(), flow=context.flow.reverse, runs=past_runs)
    if activity is DrillEvent.FAIL_BACK:
        gate([readiness], MINIMUM)
        return f"open: {readiness.flow} scores {readiness.score} of 100, {MINIMUM} required"
    bad = (Severity.CRITICAL, Severity.UNKNOWN)
    closed = [f for f in readiness.worst_first() if f.check in BEFORE_REPROTECT and f.severity in bad]
    if closed:
        raise ReadinessError(
            f"{context.flow} cannot be reprotected",
            "; ".join(f"{f.check}{' ' + f.entity if f.entity else ''}: {f.evidence}" for f in closed),
            closed[0].fix or "See the findings of drlib doctor.",
        )
    return f"open: {', '.join(BEFORE_REPROTECT)} of {readiness.flow}; the steps bring about the rest"


def _has_gate(context: DrillContext) -> bool:
    if context.properties is None:
        return False
    if context.lab is None:
        return True
    return any(process.alive and process.name.startswith("mirror") for process in context.lab.status())
