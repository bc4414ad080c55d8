"""Steps that make and break what a drill on a lab plays on: applications, the mirror's workers, whole clusters.

Rules: what they start and stop are processes on the lab's record, known by name, so a step that was killed is found as far
as it came by any other process. Topics that hold records are left where they are by every undo.
Arguments: `lab.applications` records_per_second, backlog, delays_per_second · `lab.mirror` number, lanes, caught_up ·
`lab.kill_mirror` number · `lab.stop_mirror` number · `lab.steady` · `lab.kill` cluster, noticed · `lab.restart` cluster ·
`lab.stop` applications, read_out.
Not for: clusters that are no lab; those have `group_actions`.
"""

from __future__ import annotations

from collections.abc import Callable

from drlib.drill.scenarios.failover.applications import StartApplications, StopApplications, WaitSteady
from drlib.drill.scenarios.failover.clusters import KillCluster, RestartCluster
from drlib.drill.scenarios.failover.mirror import KillMirror, StartMirror, StopMirror
from drlib.drill.step.action import Action, ActionMaker
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_step import StagedStep


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. Making one raises `UsageError` where there is no lab, or an argument is wrong."""
    kinds: dict[str, Callable[[StagedStep], Action]] = {
        "lab.applications": StartApplications,
        "lab.mirror": StartMirror,
        "lab.steady": WaitSteady,
        "lab.kill_mirror": KillMirror,
        "lab.stop_mirror": StopMirror,
        "lab.kill": KillCluster,
        "lab.restart": RestartCluster,
        "lab.stop": StopApplications,
    }
    return {name: lambda call, kind=kind: kind(StagedStep(workplace, call)) for name, kind in kinds.items()}  # type: ignore[misc]
