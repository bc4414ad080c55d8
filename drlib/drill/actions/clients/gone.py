"""Action `clients.gone`: wait until clients that are refused have left a cluster: no members of groups, no log that grows.

Rules: a member counts as there until the cluster's coordinator has removed it: a client whose connections were closed cannot
say that it leaves, so its session has to expire first (45 s by default). Producers are no members: a log of the flow that
grows says that one is there. Who has not left after `within_s` is named, and ends the run before anything is moved.
Where both directions copy the topics, what grows by copies is not counted, nor are mirrors of a third cluster's topics.
Not for: applications that follow the pointer (`source.fence`), groups that were moved (`groups.left`).
"""

from __future__ import annotations

import time
from dataclasses import replace

from drlib.drill.actions.clients.members import Row
from drlib.drill.actions.clients.refuse import LeftCluster, refused_members
from drlib.drill.actions.moving.growth import Growth
from drlib.drill.actions.moving.other_copies import filled_by_others
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Flag, Seconds
from drlib.drill.step.flow_arguments import Shared
from drlib.errors import Deviated, UsageError
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import ClusterRefused
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort

_LOOK_S = 0.5
_SHOWN = 5


class ClientsGone(LeftCluster, ReadOnlyAction):
    """Wait until no group has a member that the brokers refuse, and no log of the flow grows on the cluster that is left."""

    name = "clients.gone"
    shared_topics = Shared.SOME

    still_s: Seconds = 3
    """How long no log may grow before producers count as gone."""
    members: Flag = True
    """Whether to wait for the sessions of consumers; false where a rolling restart has closed their connections."""
    within_s: Seconds = 90
    """How long to wait."""

    @property
    def _leaving(self) -> Flow:
        flow = self.flow
        return flow if self.alias == flow.source else flow.reverse

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        began = time.monotonic()
        mirrored = self._leaving
        mirror = replace(self.context.mirror_settings(), clusters=dict(self.context.clusters))
        growth, chosen = Growth(mirror, mirrored), mirror.flow(mirrored.source, mirrored.target)
        with Cluster(self.settings) as cluster:
            ends: dict[TopicPartition, int] = {}
            since, grown = began, [TopicPartition("", 0)]
            while True:
                topics = {
                    name: topic
                    for name, topic in cluster.topics().items()
                    if chosen.mirrors_topic(name) and not chosen.policy.is_heartbeats(name)
                }
                filled = filled_by_others(mirror, mirrored, topics)
                topics = {name: topic for name, topic in topics.items() if name not in filled}
                if not topics:
                    raise UsageError(
                        f"{self.name}: no topic of {mirrored} is on {self.alias}",
                        "so nothing shows whether producers have left",
                        "Correct the flow or its topics in the mirror's file.",
                    )
                now = cluster.log_ends(
                    TopicPartition(name, n) for name, t in topics.items() for n in range(t.partitions)
                )
                if grew := growth.grown(ends, now):
                    grown, ends, since = grew, now, time.monotonic()
                members = self._members(cluster)
                self.show(members or ())
                still = time.monotonic() - since >= self.still_s
                if still and not (members and self.members):
                    return {
                        "cluster": self.alias,
                        "partitions": len(ends),
                        "members_without_connection": None if members is None else len(members),
                        "seconds": round(time.monotonic() - began, 1),
                    }
                if time.monotonic() - began > self.within_s:
                    left = sorted({f"{row['group']} at {row['address']}" for row in members or ()})
                    there = [f"members of groups: {first_few(left, _SHOWN)}"] if left else []
                    there += [] if still else [f"logs that grow: {first_few(sorted(map(str, grown)), _SHOWN)}"]
                    raise Deviated(
                        f"clients have not left {self.alias} within {self.within_s:g} s",
                        "; ".join(there),
                        "Close their connections (a rolling restart of the brokers), stop them, or refuse more addresses.",
                    )
                abort.wait(_LOOK_S)

    def _members(self, cluster: Cluster) -> list[Row] | None:
        """Members that are refused; None where they are not waited for, and may not be asked for."""
        try:
            return refused_members(cluster)
        except ClusterRefused:
            if self.members:
                raise
            return None
