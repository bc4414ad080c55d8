"""What the person who runs a drill has granted: approvals by name, IDs of clusters typed for what destroys something.

Rules: on a cluster that is no lab's, a destructive step needs that cluster's own ID, as it answers now; an approval is a
step's name, given as a flag or as a line of a file in the run's folder.
Not for: waiting for an approval, which the runner does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.drill.plan import progress as drill_progress
from drlib.drill.plan.plan import Drill
from drlib.drill.run.approvals import APPROVED_FILE
from drlib.drill.step.action import Action
from drlib.errors import ApprovalMissing, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What the person who runs it has granted: steps approved by name, IDs of clusters typed for destructive steps."""

    approved: frozenset[str] = frozenset()
    cluster_ids: frozenset[str] = frozenset()
    lab: bool = False  # a lab's clusters may be destroyed without typing their IDs
    approval_wait_s: float = 0.0  # how long to wait for a line in the file `approved`
    readiness: str = ""  # what became of the readiness gate, for the journal; empty where there was none to pass


NOTHING_GRANTED: Final = Permissions()


def refuse_untyped(drill: Drill, actions: Mapping[str, Action], permissions: Permissions) -> None:
    """Raises `UsageError` for a step that destroys something on a real cluster whose ID nobody has typed."""
    if permissions.lab:
        return
    for step in drill_progress.destructive(drill):
        found = actions[step.name].cluster_id()
        if found not in permissions.cluster_ids:
            typed = ", ".join(sorted(permissions.cluster_ids)) or "none"
            raise UsageError(
                f"step {step.name} destroys something on a real cluster",
                f"the cluster's ID has to be typed for it, and those typed are: {typed}",
                f"Look whether it is the cluster you mean, and give its ID, {found}.",
            )


def unapproved(step: str, missing: Collection[str]) -> ApprovalMissing:
    """What to raise where `step` cannot begin; `missing` are all steps that nobody has approved."""
    return ApprovalMissing(
        f"step {step} waits for its approval",
        f"nobody has approved {', '.join(missing)}; everything before it stands",
        f"Put a line '{step}' into {APPROVED_FILE} in the run's folder, or name it as approved, and resume.",
    )
