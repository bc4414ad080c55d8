"""Find topics that a cycle of flows would copy without end.

Rules: under IdentityReplicationPolicy a name does not say where a topic came from, so a topic that every flow of a cycle
selects (A->B and B->A, or A->B->C->A) would be copied without end; it is refused, but for pairs and
rings whose flows recognise what was copied (`drlib.config.both_ways`). Heartbeats are prefixed under every policy
and cannot loop, nor can any topic under DefaultReplicationPolicy (`ReplicationPolicy.is_cycle`).
Not for: listing topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from drlib.config.replication_policy import HEARTBEATS
from drlib.errors import UsageError
from drlib.model import Flow


class TopicLoop(UsageError):
    """Flows that keep topic names would copy a topic in a cycle."""


def find_cycle(flows: Iterable[tuple[Flow, Callable[[str], bool]]], topic: str) -> tuple[str, ...]:
    """The aliases of the cycle that would copy `topic`, the first one again at the end; empty without a cycle.

    `flows`: those that keep topic names, each with its selection.
    """
    if topic.endswith(HEARTBEATS):
        return ()
    targets: dict[str, list[str]] = {}
    for flow, selects in flows:
        if selects(topic):
            targets.setdefault(flow.source, []).append(flow.target)

    def walk(path: tuple[str, ...]) -> tuple[str, ...]:
        for alias in targets.get(path[-1], ()):
            if alias in path:
                return (*path[path.index(alias) :], alias)
            cycle = walk((*path, alias))
            if cycle:
                return cycle
        return ()

    return next((cycle for start in targets if (cycle := walk((start,)))), ())


def refuse_cycles(flows: Sequence[tuple[Flow, Callable[[str], bool]]], topics: Iterable[str]) -> None:
    """Raises `TopicLoop` for the first of `topics`, by name, that would be copied in a cycle."""
    for topic in sorted(topics):
        cycle = find_cycle(flows, topic)
        if cycle:
            raise TopicLoop(
                f"topic {topic} would be copied in a cycle: {' -> '.join(cycle)}",
                "IdentityReplicationPolicy keeps its name, so each cluster would copy its own records again, without end",
                "Give the flows topics that do not overlap, disable one of them, or use DefaultReplicationPolicy. Possible are "
                "both directions of a pair, and a ring of one direction, if no other flow that keeps names fills its clusters.",
            )
