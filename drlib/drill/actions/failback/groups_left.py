"""Action `groups.left`: wait until the members of the groups that were moved have left the cluster that they were moved from.

Rules: an application that follows the pointer leaves by itself; one that is configured by hand has to be stopped, and reads
there what it will read again at home until then. So it is waited for before the mirror copies to that cluster again. Who has
not left after `within_s` is named, and holds nothing up: the check is passed with conditions.
Not for: whether they read on (`groups.verify`).
"""

import time
from collections.abc import Collection

from drlib.drill.actions.failback.actions import MoveArguments
from drlib.drill.actions.groups import decided
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Seconds
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import GroupState
from drlib.outgoing.terminal import show
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.waiting import LOOK_S

_SHOWN = 5


class GroupsLeft(MoveArguments, ReadOnlyAction):
    """Wait until the moved groups have no members any more on the cluster they were moved from, such as those moved by hand."""

    name = "groups.left"

    within_s: Seconds = 60
    """How long to wait for them."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        moving = self.flow
        moves = decided.read(self.context.run_dir, moving.target)
        if moves is None:
            raise UsageError("no group was moved", "no step before it moved any", "Add switchover.move before it.")
        groups = sorted({move.group for move in moves})
        end, said = time.monotonic() + self.within_s, False
        with Cluster(self.settings.clusters[moving.source]) as source:
            while (busy := _busy(source, groups)) and time.monotonic() < end:
                if not said:
                    self._say(busy)
                    said = True
                self.show(
                    {"group": group, moving.source: "still in use" if group in busy else "left"} for group in groups
                )
                abort.wait(LOOK_S)
        self.show({"group": group, moving.source: "still in use" if group in busy else "left"} for group in groups)
        verdict = Verdict.CONDITIONS if busy else Verdict.PASS
        named = ", ".join(busy[:_SHOWN]) + (f" and {len(busy) - _SHOWN} more" if len(busy) > _SHOWN else "")
        evidence = f"still in use there, and may read records again: {named}" if busy else f"{len(groups)} groups"
        check = Check(f"the groups have left {moving.source}", verdict, evidence)
        self.score(ScorecardPart(checks=(check,)))
        return {"groups": len(groups), "still_in_use": named}

    def _say(self, busy: Collection[str]) -> None:
        moving = self.flow
        address = ",".join(self.settings.clusters[moving.target].bootstrap_servers)
        show(
            f"Stop on {moving.source}, and start on {moving.target} at {address}: {', '.join(sorted(busy)[:_SHOWN])}"
            f"{f' and {len(busy) - _SHOWN} more' if len(busy) > _SHOWN else ''}. Waiting {self.within_s:g} s for it."
        )


def _busy(source: Cluster, groups: Collection[str]) -> list[str]:
    """The groups that have members. Raises the first group's error."""
    busy = []
    for group, state in source.group_states(groups).items():
        if isinstance(state, DrlibError):
            raise state
        if state not in (GroupState.EMPTY, GroupState.ABSENT):
            busy.append(group)
    return sorted(busy)
