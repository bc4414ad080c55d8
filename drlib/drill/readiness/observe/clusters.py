"""The two clusters of a flow: who answers, whether they are the ones that are meant, what they let us do, who was alive.

Rules: a cluster that answers with another ID than the file names counts as one that does not answer: nothing it says is
used. Rights are those `preflight` looks at, with its commands; where the source is silent, those on the target.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from drlib.config.settings import FlowSettings
from drlib.drill.readiness.checks.observations import Beat, Identity, Lack, Reach, Unseen
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, WrongCluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.journal.entries import Clusters
from drlib.mirror.mm2.records import Heartbeat, MalformedRecord
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.preflight.checks import NotReady, Preflight
from drlib.model import TopicPartition

ANSWER_S: Final = 5.0  # what a cluster has to say who it is
NEWEST: Final = 500  # records of the heartbeats topic that are read: it holds those of every flow to the target


@dataclass(frozen=True)
class Side:
    """One cluster: our client, and what it says of itself, or why it says nothing."""

    settings: ClusterSettings
    client: ClusterClient | None
    metadata: ClusterMetadata | None
    error: DrlibError | None = None

    @property
    def unseen(self) -> Unseen:
        """The answer to every question that needs this cluster, while it does not answer."""
        alias = self.settings.alias
        return Unseen(f"{alias} does not answer", f"Bring {alias} back, then look again.")

    def reach(self) -> Reach:
        where = ",".join(self.settings.bootstrap_servers)
        if self.error is not None:
            return Reach(self.settings.alias, where, 0, f"{self.error.what}: {self.error.why}", self.error.remedy)
        return Reach(self.settings.alias, where, len(self.metadata.brokers) if self.metadata else 0)


async def meet(settings: ClusterSettings) -> Side:
    """Ask a cluster who it is and what it has. Raises nothing it can cause; the caller closes `client`."""
    client: ClusterClient | None = None
    try:
        client = wire_client(settings, client_id="drlib-doctor", timeout_s=ANSWER_S)
        if settings.cluster_id:
            client.expect(settings.cluster_id)
        async with asyncio.timeout(3 * ANSWER_S):
            return Side(settings, client, await client.metadata(None))
    except DrlibError as error:
        return Side(settings, client, None, error)
    except (TimeoutError, OSError) as error:
        where = ", ".join(settings.bootstrap_servers)
        why = str(error) or f"no answer within {3 * ANSWER_S:g} s"
        remedy = f"See whether its brokers run and {settings.alias}.bootstrap.servers is right."
        return Side(settings, client, None, Unreachable(f"{settings.alias} at {where} cannot be reached", why, remedy))


async def identities(flow: FlowSettings, source: Side, target: Side) -> tuple[Identity, ...]:
    """The IDs of the two clusters, and which are meant: by the file, else by the journal's newest claim."""
    journal = flow.policy.journal_topic(flow.flow.source)
    pinned: Clusters | None = None
    if target.client is not None and target.metadata is not None and journal in target.metadata.topics:
        entries = await read_journal(target.client, TopicPartition(journal, 0))
        pinned = next((entry for entry in reversed(entries) if isinstance(entry, Clusters)), None)
    found = []
    for side, by_journal in (
        (source, pinned.source_id if pinned else ""),
        (target, pinned.target_id if pinned else ""),
    ):
        meant = side.settings.cluster_id or by_journal
        answered = side.metadata.cluster_id if side.metadata is not None else ""
        if isinstance(side.error, WrongCluster):
            answered = side.error.found
        wrong = WrongCluster(
            ",".join(side.settings.bootstrap_servers),
            meant,
            answered,
            alias=side.settings.alias,
            journal="" if side.settings.cluster_id else journal,
        )
        found.append(Identity(side.settings.alias, answered, meant, wrong.remedy))
    return tuple(found)


async def lacks(flow: FlowSettings, source: Side, target: Side) -> tuple[Lack, ...]:
    """What `preflight` finds. Raises `Unreachable` where a cluster stopped answering."""
    assert target.client is not None
    checks = Preflight(flow, source.settings, target.settings, source.client or target.client, target.client)
    found: list[DrlibError] = []
    try:
        await (checks.run() if source.metadata is not None else checks.of_target())
    except NotReady as error:
        found += error.findings
    except Unreachable:
        raise
    except DrlibError as error:
        found.append(error)
    rows = [
        Lack("", f"{error.what}: {error.why}", error.remedy) for error in found if not isinstance(error, WrongCluster)
    ]
    return (*rows, *(Lack(notice.entity, notice.detail, notice.remedy) for notice in checks.notices))


def last_beat(cluster: ClusterSettings, flow: FlowSettings, timeout_s: float) -> Beat:
    """The newest heartbeat of this flow among the newest records of the target's heartbeats topic. Blocks."""
    interval_s = flow.emit_heartbeats_s if flow.emit_heartbeats else 0
    if not interval_s:
        return Beat(None, 0)
    partition = TopicPartition(flow.policy.heartbeats_topic, 0)
    newest: int | None = None
    with Cluster(cluster, timeout_s=timeout_s) as target:
        if not target.topics([partition.topic]):
            return Beat(None, interval_s)
        start, end = target.log_starts([partition])[partition], target.log_ends([partition])[partition]
        for record in target.read({partition: Range(max(start, end - NEWEST), end)}):
            try:
                beat = Heartbeat.decode(record.key, record.value)
            except MalformedRecord:
                continue
            if (beat.source, beat.target) == (flow.flow.source, flow.flow.target):
                newest = max(newest or 0, beat.timestamp_ms)
    return Beat(newest, interval_s)
