"""Approve the steps of a run that wait for a person, where several places find the source gone.

Rules: only where `failover.triage` is asked for it (`approve: automatic`), with a witness at a third place and enough time; one
on another machine has to prove its answers by the token of the properties file;
only while this host or the mirror, and a witness, find the source gone. The approvals are lines in the run's folder, as a
person writes them, with what was seen as the name. In any other case nothing is approved, and the run waits for a person.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from drlib.drill.run import approvals, planning
from drlib.drill.witness import service
from drlib.drill.witness.evidence import Finding, may_decide_alone
from drlib.drill.witness.login import KEY
from drlib.errors import UsageError

LEAST_S: Final = 10.0  # of silence, before a machine decides: a broker's restart takes less


class Approve(StrEnum):
    """Who approves the steps that wait for it."""

    PERSON = "person"
    AUTOMATIC = "automatic"


def check_automatic(approve: Approve, witnesses: Sequence[str], confirm_s: float, *, token: bool) -> None:
    """Raises `UsageError` for an automatic approval that no other place could confirm, or that is too quick.

    `token`: the file names the token that witnesses have.
    """
    if approve is Approve.PERSON:
        return
    if not witnesses:
        raise UsageError(
            "approve: automatic",
            "no witness is named: from one place a dead cluster and a cut network look the same",
            "Run drlib witness FILE --at HOST:PORT at a third place, and name it in witnesses.",
        )
    if not token and (far := [each for each in witnesses if not service.is_near(each)]):
        raise UsageError(
            "approve: automatic",
            f"{far[0]} would be asked without a token, so that anyone could answer in its place",
            f"Set {KEY} = ${{file:/path:key}} in the properties file, here and where drlib witness runs.",
        )
    if confirm_s < LEAST_S:
        raise UsageError(
            "approve: automatic",
            f"confirm_s is {confirm_s:g}, and a broker that is restarted is away for as long",
            f"Set confirm_s to {LEAST_S:g} or more.",
        )


def approve_steps(run_dir: Path, seen: Finding | None) -> str:
    """Approve every step of the run in `run_dir` that waits; what was done, for the evidence."""
    why_not = "the source answers" if seen is None else may_decide_alone(seen)
    if why_not or seen is None:
        return f"left to a person: {why_not}"
    plan = planning.read(run_dir)
    waiting = [step.name for step in plan.drill.steps if step.approval]
    for step in waiting:
        approvals.write(run_dir, step, plan.hash, f"failover.triage: {seen}")
    return f"automatically: {', '.join(waiting) or 'no step waits'}"
