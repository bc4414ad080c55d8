"""Topics that would go round: a ring of flows that keep names as they are copies its own copies for ever.

Rules: under IdentityReplicationPolicy a name does not say where a topic came from, so a topic that every flow of a ring
chooses (A->B and B->A, or A->B->C->A) would be copied without end; it is refused. Heartbeats are prefixed under every
policy and cannot loop, nor can anything under DefaultReplicationPolicy (`ReplicationPolicy.is_cycle`).
Not for: looking up which topics there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from drlib.config.replication_policy import HEARTBEATS
from drlib.errors import UsageError
from drlib.model import Flow


class TopicLoop(UsageError):
    """Flows that keep names would copy a topic in a ring."""


def find_cycle(flows: Iterable[tuple[Flow, Callable[[str], bool]]], topic: str) -> tuple[str, ...]:
    """The aliases `topic` would go round, the first one again at the end; empty when it would not.

    `flows` are those that keep names, each with what it chooses.
    """
    if topic.endswith(HEARTBEATS):
        return ()
    follow: dict[str, list[str]] = {}
    for flow, chooses in flows:
        if chooses(topic):
            follow.setdefault(flow.source, []).append(flow.target)

    def walk(path: tuple[str, ...]) -> tuple[str, ...]:
        for alias in follow.get(path[-1], ()):
            if alias in path:
                return (*path[path.index(alias) :], alias)
            found = walk((*path, alias))
            if found:
                return found
        return ()

    return next((found for start in follow if (found := walk((start,)))), ())


def refuse_rings(flows: Sequence[tuple[Flow, Callable[[str], bool]]], topics: Iterable[str]) -> None:
    """Raises `TopicLoop` for the first of `topics`, by name, that would go round."""
    for topic in sorted(topics):
        found = find_cycle(flows, topic)
        if found:
            raise TopicLoop(
                f"topic {topic} would go round {' -> '.join(found)}",
                "IdentityReplicationPolicy keeps its name, so each cluster would copy its own records again, for ever",
                "Give the flows topics that do not overlap, switch one of them off, or use DefaultReplicationPolicy.",
            )
