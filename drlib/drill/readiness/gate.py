"""The readiness gate of a drill: closed, nothing of the drill begins.

Rules: it is asked before the first step of a drill on a properties file, and of a lab's drill whose mirror already runs
when it begins; where the drill starts the mirror itself there is nothing to ask yet, and its hypothesis is the gate. A run
that is taken up again is past it: what it did may be what makes the flow unready. In an emergency whose source does not
answer, only what the target needs can close it; and only in an emergency may it be passed over, with a reason, which the
journal and the scorecard keep.
Not for: what is looked at and judged (`drlib.drill.readiness.doctor`, `drlib.drill.readiness.score`).
"""

from __future__ import annotations

from pathlib import Path

from drlib.drill.plan.plan import Mode
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM, Severity, gate, gate_without_source
from drlib.drill.step.context import DrillContext
from drlib.errors import ReadinessError, UsageError

SKIPPED = "skipped: "


def refuse_skip(mode: Mode, reason: str | None) -> None:
    """Raises `UsageError` where the gate may not be passed over, or no reason is given."""
    if reason is None:
        return
    if mode is not Mode.EMERGENCY:
        raise UsageError(
            f"the readiness gate of a {mode} drill cannot be skipped",
            "only an emergency may begin on a flow that is not ready",
            "Mend what drlib doctor names, or run an emergency drill.",
        )
    if not reason.strip():
        raise UsageError("the readiness gate is not skipped", "no reason was given", "Say why: --skip-gate 'REASON'.")


def pass_gate(workplace: DrillContext, mode: Mode, *, skip: str | None = None, minimum: int = MINIMUM) -> str:
    """What became of the gate, in words, empty where there is none to pass. `skip` is the reason to pass over it.

    Raises `ReadinessError` when it is closed, `UsageError` for a skip that may not be.
    """
    refuse_skip(mode, skip)
    if not _asked(workplace):
        return ""
    if skip is not None:
        return SKIPPED + " ".join(skip.split())
    found = doctor(workplace.mirror_settings(), flow=workplace.flow, runs=_runs(workplace.run_dir))
    gone = mode is Mode.EMERGENCY and found[0].verdict("source-answers") is Severity.CRITICAL
    try:
        if gone:
            gate_without_source(found[0])
            return f"open: the source of {found[0].flow} is gone, and the target can take over"
        gate(found, minimum)
    except ReadinessError as closed:
        hint = " In an emergency: --skip-gate REASON." if mode is Mode.EMERGENCY else ""
        raise ReadinessError(closed.what, closed.why, closed.remedy + hint) from None
    return f"open: {found[0].flow} scores {found[0].score} of 100, {minimum} asked"


def _asked(workplace: DrillContext) -> bool:
    if workplace.properties is None:
        return False
    if workplace.lab is None:
        return True
    return any(process.alive and process.name.startswith("mirror") for process in workplace.lab.status())


def _runs(run_dir: Path) -> Path:
    """Where the drills on record are: beside this one."""
    return run_dir.parent
