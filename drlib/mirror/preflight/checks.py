"""Check everything that must hold before a flow's first claim, and report all findings at once, before anything is written.

Rules:
- Nothing is created, claimed, written or tried: clusters are asked for their IDs, topics and granted operations.
- A finding about the whole flow refuses it; a finding about one topic is a notice, because only that topic waits.
- A journal belongs to the two clusters that it was started between. Its lane count is the partition count of its topic.
Not for: what changes later (`drlib.mirror.engine.lane.lane`, `drlib.mirror.flow`), nor for keys and values of the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.authorized_operations import group_rights, topic_rights
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, WrongCluster
from drlib.kafka.protocol.error_codes import AUTHORIZATION, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.journal.entries import Clusters
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.preflight.required_acls import UNKNOWN_PRINCIPAL, Right, command, missing, principal_of
from drlib.model import TopicPartition

MOST_NOTICES = 20  # of one kind

READ_SOURCE = ("READ",)
WRITE_MIRROR = ("WRITE", "READ")  # READ: a claim reads back what was written
OWN_JOURNAL = ("WRITE", "READ")


class SameCluster(UsageError):
    """Both aliases of a flow lead to one cluster."""


class LanesChanged(UsageError):
    """The journal has another number of lanes than the file."""


class JournalNotCompacted(UsageError):
    """The journal topic is not compacted, so its entries would expire."""


class NotEnoughBrokers(UsageError):
    """A replication factor exceeds the number of brokers."""


class NotAuthorized(UsageError):
    """A right is missing; the remedy is the command that grants it."""


class NotReady(UsageError):
    """Several findings at once: what, why and remedy of each, in order."""

    def __init__(self, flow: str, findings: Sequence[DrlibError]) -> None:
        self.findings = tuple(findings)
        super().__init__(
            f"flow {flow} cannot start",
            "; ".join(f"({n}) {f.what}: {f.why}" for n, f in enumerate(findings, 1)),
            " ".join(f"({n}) {f.remedy}" for n, f in enumerate(findings, 1)),
        )


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to open: what one topic waits for."""

    event: str
    entity: str
    detail: str
    remedy: str


@dataclass
class Preflight:
    """The checks of one flow over two connected clients."""

    settings: FlowSettings
    source_settings: ClusterSettings
    target_settings: ClusterSettings
    source: ClusterClient
    target: ClusterClient
    findings: list[DrlibError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    async def run(self) -> tuple[Notice, ...]:
        """Run all checks; returns the notices.

        Raises the single finding, or `NotReady` with all; `Unreachable` when a cluster does not answer.
        """
        clusters = await self._reach()
        if clusters is not None:
            source, target = clusters
            self._same(source, target)
            self._factors(source, target)
            if not self.findings:  # a wrong cluster is asked nothing more
                await asyncio.gather(self._target_rights(source, target), self._source_rights(source))
            if not self.findings:
                await self._journal(target)
        if len(self.findings) == 1:
            raise self.findings[0]
        if self.findings:
            unreachable = all(isinstance(f, Unreachable) for f in self.findings)
            raise _all_unreachable(self.findings) if unreachable else NotReady(str(self.settings.flow), self.findings)
        return tuple(self.notices)

    async def of_target(self) -> tuple[Notice, ...]:
        """Check the rights on the target alone, while the source does not answer. Raises as `run`."""
        await self._target_rights(None, await self.target.metadata(None))
        if self.findings:
            raise self.findings[0] if len(self.findings) == 1 else NotReady(str(self.settings.flow), self.findings)
        return tuple(self.notices)

    async def _reach(self) -> tuple[ClusterMetadata, ClusterMetadata] | None:
        """Both clusters' topics; None when one did not answer or is not the one its key names."""
        for settings, client in ((self.source_settings, self.source), (self.target_settings, self.target)):
            if settings.cluster_id:
                client.expect(settings.cluster_id)
        answers = await asyncio.gather(self.source.metadata(None), self.target.metadata(None), return_exceptions=True)
        reached = []
        for settings, answer in zip((self.source_settings, self.target_settings), answers, strict=True):
            if isinstance(answer, ClusterMetadata):
                reached.append(answer)
            elif isinstance(answer, WrongCluster):
                self.findings.append(_wrong(settings, answer.meant, answer.found))
            elif isinstance(answer, Unreachable):
                self.findings.append(Unreachable(f"{settings.alias}: {answer.what}", answer.why, answer.remedy))
            elif isinstance(answer, DrlibError):
                self.findings.append(answer)
            else:
                raise answer
        return (reached[0], reached[1]) if len(reached) == 2 else None

    def _same(self, source: ClusterMetadata, target: ClusterMetadata) -> None:
        flow = self.settings.flow
        if source.cluster_id and source.cluster_id == target.cluster_id:
            self.findings.append(
                SameCluster(
                    f"{flow.source} and {flow.target} are the same cluster",
                    f"both answer with cluster ID {source.cluster_id}, and a cluster cannot mirror to itself",
                    f"Correct {flow.source}.bootstrap.servers or {flow.target}.bootstrap.servers.",
                )
            )

    def _factors(self, source: ClusterMetadata, target: ClusterMetadata) -> None:
        """Check the replication factors of the topics that are still to be created."""
        settings, flow, policy = self.settings, self.settings.flow, self.settings.policy
        factors = [
            ("drlib.journal.replication.factor", settings.journal_replication_factor, target,
             policy.journal_topic(flow.source)),
            ("checkpoints.topic.replication.factor", settings.checkpoints_replication_factor, target,
             policy.checkpoints_topic(flow.source)),
        ]  # fmt: skip
        if settings.emit_heartbeats:
            factors.append(
                ("heartbeats.topic.replication.factor", settings.heartbeats_replication_factor, target,
                 policy.heartbeats_topic)
            )  # fmt: skip
        if settings.emit_offset_syncs:
            where = source if settings.offset_syncs_location == "source" else target
            factors.append(
                ("offset-syncs.topic.replication.factor", settings.offset_syncs_replication_factor, where,
                 settings.offset_syncs_topic)
            )  # fmt: skip
        began = policy.journal_topic(flow.source) in target.topics
        # Later it is an event of that topic: a broker may be down for now.
        for name in () if began else source.topics:
            mirror = policy.remote_topic(flow.source, name)
            if settings.mirrors_topic(name) and mirror not in target.topics:
                factors.append(("replication.factor", settings.replication_factor, target, mirror))
                break
        for key, factor, cluster, topic in factors:
            if topic not in cluster.topics and factor > len(cluster.brokers):
                alias = flow.source if cluster is source else flow.target
                self.findings.append(not_enough_brokers(key, factor, alias, len(cluster.brokers), topic))

    async def _journal(self, target: ClusterMetadata) -> None:
        """Check that the journal is compacted, has the configured lanes, and was started between these clusters."""
        name = self.settings.policy.journal_topic(self.settings.flow.source)
        topic = target.topics.get(name)
        if topic is None or topic.error_code:
            return
        lanes = len(topic.partitions)
        if lanes != self.settings.lanes:
            self.findings.append(
                LanesChanged(
                    f"drlib.lanes = {self.settings.lanes} cannot be used for {self.settings.flow}",
                    f"its journal {name} was started with {lanes} lanes, and a partition's entries are in the lane it had then",
                    f"Set drlib.lanes = {lanes}.",
                )
            )
        await self._policy(name)
        entries = await read_journal(self.target, TopicPartition(name, 0))
        pinned = next((e for e in reversed(entries) if isinstance(e, Clusters)), None)
        if pinned is None:
            return
        for settings, client, meant in (
            (self.source_settings, self.source, pinned.source_id),
            (self.target_settings, self.target, pinned.target_id),
        ):
            if client.cluster_id != meant and not settings.cluster_id:
                self.findings.append(_wrong(settings, meant, client.cluster_id, journal=name))

    async def _policy(self, name: str) -> None:
        def read() -> str:
            with Cluster(self.target_settings) as cluster:
                return cluster.topic_config([name]).get(name, {}).get("cleanup.policy", "delete")

        try:
            policy = await asyncio.to_thread(read)
        except DrlibError:
            return  # the mirror works without the right to DescribeConfigs
        if policy != "compact":
            self.findings.append(
                JournalNotCompacted(
                    f"the journal {name} on {self.settings.flow.target} is not compacted",
                    f"its cleanup.policy is {policy}, but entries of the journal must never expire",
                    f"kafka-configs.sh --bootstrap-server {','.join(self.target_settings.bootstrap_servers)} "
                    f"--alter --topic {name} --add-config cleanup.policy=compact",
                )
            )

    async def _source_rights(self, source: ClusterMetadata) -> None:
        chosen = [name for name in source.topics if self.settings.mirrors_topic(name)]
        rights = await topic_rights(self.source, chosen)
        self._waiting("SourceUnauthorized", rights, READ_SOURCE, self.source_settings)

    async def _target_rights(self, source: ClusterMetadata | None, target: ClusterMetadata) -> None:
        settings, flow, policy = self.settings, self.settings.flow, self.settings.policy
        own = {policy.journal_topic(flow.source): OWN_JOURNAL, policy.checkpoints_topic(flow.source): ("WRITE",)}
        if settings.emit_heartbeats:
            own[policy.heartbeats_topic] = ("WRITE",)
        group = worker_group(flow)
        names = source.topics if source is not None else ()
        mirrors = [policy.remote_topic(flow.source, n) for n in names if settings.mirrors_topic(n)]
        rights, granted_group, granted_mirrors = await asyncio.gather(
            topic_rights(self.target, own),
            group_rights(self.target, group),
            topic_rights(self.target, [m for m in mirrors if m in target.topics]),
        )
        missing_rights = [
            lack
            for name, operations in own.items()
            if (granted := rights.get(name)) is not None
            and (lack := missing(Right("topic", name, operations), granted)) is not None
        ]
        lack = missing(Right("group", group, ("READ",)), granted_group)
        missing_rights += [lack] if lack is not None else []
        self.findings += [not_authorized(right, self.target_settings) for right in missing_rights]
        self._waiting("TargetUnauthorized", granted_mirrors, WRITE_MIRROR, self.target_settings)

    def _waiting(
        self,
        event: str,
        rights: Mapping[str, frozenset[str] | None],
        operations: tuple[str, ...],
        cluster: ClusterSettings,
    ) -> None:
        lacking = [
            (name, lack)
            for name, granted in sorted(rights.items())
            if granted is not None and (lack := missing(Right("topic", name, operations), granted)) is not None
        ]
        for name, lack in lacking[:MOST_NOTICES]:
            error = not_authorized(lack, cluster)
            self.notices.append(Notice(event, name, f"{error.what}: {error.why}", error.remedy))


def not_authorized(right: Right, cluster: ClusterSettings) -> NotAuthorized:
    """The error that `right` is missing on `cluster`, with the command that grants it."""
    principal = principal_of(cluster)
    unknown = (
        "" if principal != UNKNOWN_PRINCIPAL else " (replace User:PRINCIPAL by the principal that the broker sees)"
    )
    who = principal if not unknown else "the worker's principal"
    return NotAuthorized(
        f"{who} may not {right} of {cluster.alias}",
        "no ACL of that cluster allows it",
        f"{command(right, principal, cluster.bootstrap_servers)}{unknown}",
    )


@dataclass(frozen=True, slots=True)
class Grants:
    """Commands that grant the rights which a running flow was refused."""

    settings: FlowSettings
    source: ClusterSettings
    target: ClusterSettings

    def refused(self, error: BrokerError, journal: str) -> DrlibError:
        """`error`, an authorization failure of the whole lane, with its remedy."""
        if error.code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            flow = self.settings.flow
            every = f"drlib.{flow.source}.{flow.target}."  # of each lane and each later generation
            return not_authorized(Right("transactional-id", every, ("WRITE",), prefixed=True), self.target)
        own = self.settings
        taken_over = {own.connect_offsets_topic, own.connect_configs_topic, own.offset_syncs_topic} & {*error.topics}
        if taken_over:  # what MirrorMaker 2 left has to be known before a lane begins: nothing is copied on a guess
            side = (
                self.source
                if own.offset_syncs_topic in taken_over and own.offset_syncs_location == "source"
                else self.target
            )
            return not_authorized(Right("topic", min(taken_over), ("READ",)), side)
        return not_authorized(Right("topic", journal, OWN_JOURNAL), self.target)

    def membership(self, error: BrokerError | UnsupportedRequest) -> DrlibError:
        """`error`, for which this worker cannot be a member of the flow's group, with its remedy."""
        if isinstance(error, BrokerError) and error.code in AUTHORIZATION:
            return not_authorized(Right("group", worker_group(self.settings.flow), ("READ",)), self.target)
        return error

    def topic(self, event: str, topic: str) -> str:
        """The command that ends `SourceUnauthorized` or `TargetUnauthorized` of a topic; "" for any other event."""
        if event == "SourceUnauthorized":
            return not_authorized(Right("topic", topic, READ_SOURCE), self.source).remedy
        if event == "TargetUnauthorized":
            return not_authorized(Right("topic", topic, WRITE_MIRROR), self.target).remedy
        return ""


def not_enough_brokers(key: str, factor: int, alias: str, brokers: int, topic: str) -> NotEnoughBrokers:
    counted = f"{brokers} broker" + ("" if brokers == 1 else "s")
    return NotEnoughBrokers(
        f"topic {topic} cannot be created on {alias}",
        f"{key} is {factor}, but {alias} has {counted}",
        f"Set {key} = {brokers}, or add brokers to {alias}.",
    )


def _wrong(settings: ClusterSettings, expected: str, actual: str, *, journal: str = "") -> WrongCluster:
    where = ", ".join(settings.bootstrap_servers)
    return WrongCluster(where, expected, actual, alias=settings.alias, journal=journal)


def _all_unreachable(findings: Sequence[DrlibError]) -> Unreachable:
    return Unreachable(
        "; ".join(f.what for f in findings),
        "; ".join(f.why for f in findings),
        " ".join(dict.fromkeys(f.remedy for f in findings)),
    )
