"""Remedies of open alerts that a console may carry out by a button, as a table.

Rules: pure. Only what takes nothing away, and only on a lab: brokers that do not run are started, paused ones resumed, a cut
link is healed, and a mirror's worker that died is started again. None while a process runs a drill, which broke things on
purpose. On clusters of one's own no remedy is a button: its command is in the alert.
Not for: carrying it out (`drlib.ui.console.faults`, `drlib.lab.workload.mirrors`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from drlib.mirror.status.worker_status import Event
from drlib.ui.console.state import KILLED, PAUSED, ClusterSeen, ConsoleState

MIRROR: Final = "mirror"
# Events that a cluster or its link may cause, by the sides of the flow that are looked at.
_BOTH: Final = (0, 1)
CAUSED_BY: Final = {
    "SourceUnreachable": (0,),
    "OfflinePartition": (0,),
    "SourceStalled": (0,),
    "TargetUnreachable": (1,),
    "LaneFault": (1,),
    "MirrorUnavailable": (1,),
    "FlowUnreachable": _BOTH,
    "LaneStalled": _BOTH,
    "NoWorker": _BOTH,
    "GroupsUnseen": (0,),
}


@dataclass(frozen=True, slots=True, order=True)
class Remedy:
    """`act`: the name of a fault's repair, or `MIRROR`; `of`: the cluster, or the flow."""

    act: str
    of: str
    label: str


def remedies(state: ConsoleState, *, lab: bool) -> tuple[Remedy, ...]:
    """Each once; clusters before the mirror, which needs them."""
    if not lab or (state.drill is not None and state.drill.alive):
        return ()
    seen = {cluster.alias: cluster for cluster in state.clusters}
    found = {remedy for event in state.open_events for remedy in _of(event, seen)}
    return tuple(sorted(found, key=lambda remedy: (remedy.act == MIRROR, remedy.label)))


def _of(event: Event, seen: dict[str, ClusterSeen]) -> Iterator[Remedy]:
    source, arrow, target = event.flow.partition("->")
    if not arrow:
        return
    sides = CAUSED_BY.get(event.name, ())
    broken = [remedy for side in sides for remedy in _cluster((source, target)[side], seen)]
    yield from broken
    if event.name == "NoWorker" and not broken:
        yield Remedy(MIRROR, event.flow, f"Start the mirror of {event.flow}")


def _cluster(alias: str, seen: dict[str, ClusterSeen]) -> Iterator[Remedy]:
    cluster = seen.get(alias)
    if cluster is None:
        return
    if cluster.word == KILLED:
        yield Remedy("start", alias, f"Start {alias}")
    elif cluster.word == PAUSED:
        yield Remedy("resume", alias, f"Resume {alias}")
    if "cut" in cluster.link:
        yield Remedy("heal", alias, f"Heal the link to {alias}")
