"""The readiness gate of a drill: while it is closed, no step of the drill runs.

Rules: the gate is checked before the first step of a drill on a properties file, and of a lab drill whose mirror already
runs. A lab drill that starts the mirror itself has its steady-state hypothesis instead. A resumed run is not checked again:
its own steps may be what makes the flow unready. In an emergency whose source does not answer, only findings about the
target close the gate. Only an emergency may skip it, with a reason that journal and scorecard keep.
Not for: observing and judging (`drlib.drill.readiness.doctor`, `drlib.drill.readiness.score`).
"""

from drlib.drill.plan.plan import Mode
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM, Severity, gate, gate_without_source
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import ask_in_run
from drlib.errors import ReadinessError, Unreachable, UsageError

SKIPPED = "skipped: "


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


def pass_gate(context: DrillContext, mode: Mode, *, skip: str | None = None) -> str:
    """The outcome of the gate as text, "" where the drill has none. `skip` is the reason to skip it.

    Raises `ReadinessError` when it is closed, `UsageError` for a skip that is not allowed.
    """
    refuse_skip(mode, skip)
    if not _has_gate(context):
        return ""
    if skip is not None:
        return SKIPPED + " ".join(skip.split())
    past_runs = context.run_dir.parent
    silent = {}
    if mode is Mode.EMERGENCY:  # the steps do not wait for it in full again
        answers = ask_in_run(context, [context.cluster(context.flow.source)])
        silent = {alias: answer.why for alias, answer in answers.items() if isinstance(answer, Unreachable)}
    (readiness,) = doctor(context.mirror_settings(), flow=context.flow, runs=past_runs, silent=silent)
    source_gone = readiness.severity("source-answers") is Severity.CRITICAL
    try:
        if mode is Mode.EMERGENCY and source_gone:
            gate_without_source(readiness)
            left_open = f"; not determined: {', '.join(readiness.not_determined)}" if readiness.not_determined else ""
            return f"open: the source of {readiness.flow} is gone, and the target can take over{left_open}"
        gate([readiness], MINIMUM)
    except ReadinessError as closed:
        hint = " In an emergency: --skip-gate REASON." if mode is Mode.EMERGENCY else ""
        raise ReadinessError(closed.what, closed.why, closed.remedy + hint) from None
    return f"open: {readiness.flow} scores {readiness.score} of 100, {MINIMUM} required"


def _has_gate(context: DrillContext) -> bool:
    if context.properties is None:
        return False
    if context.lab is None:
        return True
    return any(process.alive and process.name.startswith("mirror") for process in context.lab.status())
