"""What the operator of a drill has granted: approvals by step, and IDs of clusters typed for destructive steps.

Rules: on a cluster that is not a lab's, a destructive step needs that cluster's own ID, as it answers now. An approval is a
step's name, given as a flag, or as a line of a file in the run's folder that names the plan as well.
Not for: waiting for an approval, which the runner does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.drill.plan import progress as drill_progress
from drlib.drill.plan.plan import Drill
from drlib.drill.run import approvals
from drlib.drill.run.approvals import APPROVED_FILE
from drlib.drill.step.action import Action
from drlib.errors import ApprovalMissing, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Steps approved by name, and IDs of clusters typed for destructive steps."""

    approved: frozenset[str] = frozenset()
    cluster_ids: frozenset[str] = frozenset()
    lab: bool = False  # a lab's clusters may be destroyed without typing their IDs
    approval_wait_s: float = 0.0  # how long to wait for a line in the file `approved`
    readiness: str = ""  # the outcome of the readiness gate, for the journal; empty where there was none


NOTHING_GRANTED: Final = Permissions()


def refuse_untyped(drill: Drill, actions: Mapping[str, Action], permissions: Permissions) -> None:
    """Raises `UsageError` for a destructive step on a real cluster whose ID was not typed."""
    if permissions.lab:
        return
    for step in drill_progress.destructive(drill):
        its_id = actions[step.name].cluster_id()
        if its_id not in permissions.cluster_ids:
            typed = ", ".join(sorted(permissions.cluster_ids)) or "none"
            raise UsageError(
                f"step {step.name} is destructive and runs on a real cluster",
                f"it needs the cluster's ID as a confirmation; confirmed are: {typed}",
                f"Check that it is the cluster you mean, then confirm its ID: {its_id}.",
            )


def unapproved(step: str, plan: str, missing: Collection[str], refused: Collection[str]) -> ApprovalMissing:
    """The error for a `step` of `plan` that cannot begin; `missing` are all steps without an approval, `refused` is why
    lines of the file approve none."""
    line = approvals.line(step, plan)
    return ApprovalMissing(
        f"step {step} waits for its approval",
        "; ".join((f"not approved: {', '.join(missing)}", *refused, "the steps before it are done")),
        f"Put a line '{line}' into {APPROVED_FILE} in the run's folder, or name it as approved.",
    )
