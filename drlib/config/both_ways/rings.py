"""Which flows that keep topic names make a ring of three or more clusters, and what each of them has to know of the others.

Rules: a ring runs round in one direction (A->B, B->C, C->A), and each of its clusters is filled under kept names by the flow of
the ring alone: what that flow's journals do not explain was written by a client. Further clusters may be filled from the ring.
A topic that every flow of the ring selects is shared: it is copied round, and each record is once on every cluster.
Not for: two flows of a pair (`shared_topics`), nor for recognising copies (`drlib.mirror.engine.reverse`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import HEARTBEATS, IdentityReplicationPolicy
from drlib.model import Flow


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring that `flows[0]` is in, in the order in which a record of its source is copied."""

    flows: Sequence[FlowSettings]

    def __str__(self) -> str:
        return " -> ".join([*(each.flow.source for each in self.flows), self.flows[0].flow.source])

    @property
    def incoming(self) -> FlowSettings:
        """The flow that fills the source of the first one."""
        return self.flows[-1]

    @property
    def relays(self) -> int:
        """How many relays each flow has: for records that one flow has copied before, two flows, and so on."""
        return len(self.flows) - 2

    def shares(self, topic: str) -> bool:
        """Is a topic copied round?"""
        return not topic.endswith(HEARTBEATS) and all(flow.mirrors_topic(topic) for flow in self.flows)


def keeps_names(flow: FlowSettings) -> bool:
    return flow.enabled and isinstance(flow.policy, IdentityReplicationPolicy)


def ring_of(flow: Flow, flows: Collection[FlowSettings]) -> Ring | None:
    """The ring of three or more clusters that `flow` is in, where its copies can be recognised; else None."""
    found = _cycle(flow, {each.flow: each for each in flows if keeps_names(each)})
    return None if found is None or len(found) < 3 else Ring(found)


def hops_of(ring: Ring | None) -> range:
    """By how many flows the records were copied before that a flow copies: by none in its lanes, by more in its relays."""
    return range(1 if ring is None else ring.relays + 1)


def flows_that_close_rings(flows: Collection[FlowSettings]) -> frozenset[Flow]:
    """One flow of each such ring: without it the clusters of the ring are in a row."""
    rings = [ring for each in flows if (ring := ring_of(each.flow, flows)) is not None]
    return frozenset(min((each.flow for each in ring.flows), key=str) for ring in rings)


def _cycle(flow: Flow, keeping: dict[Flow, FlowSettings]) -> list[FlowSettings] | None:
    """The flows of the cycle that begins with `flow`; None where a cluster in it is filled by another flow, too."""
    if flow not in keeping:
        return None
    back = [keeping[flow]]
    while True:
        filling = [each for each in keeping.values() if each.flow.target == back[-1].flow.source]
        if len(filling) != 1 or (filling[0] in back and filling[0] is not back[0]):
            return None  # several flows fill the cluster, or none; or `flow` leads out of a cycle
        if filling[0] is back[0]:
            return [back[0], *reversed(back[1:])]
        back.append(filling[0])
