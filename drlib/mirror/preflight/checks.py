"""Check everything that must hold before a flow's first claim, and report all findings at once, before anything is written.

Rules:
- Nothing is created, claimed, written or tried: clusters are asked for their IDs, topics and granted operations.
- A finding about the whole flow refuses it; a finding about one topic is a notice, because only that topic waits.
- A journal belongs to the two clusters that it was started between. Its lane count is the partition count of its topic.
Not for: what changes later (`drlib.mirror.engine.lane.lane`, `drlib.mirror.flow`), nor for keys and values of the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from drlib.config.both_ways.shared_topics import Journals, journals_of
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


@dataclass(frozen=True, slots=True)
class StartRights:
    """The rights without which a flow does not start, where the topics exist already; a topic of its target that does not takes
    CREATE as well."""

    source: tuple[Right, ...]
    target: tuple[Right, ...]


def start_rights(settings: FlowSettings, flows: Collection[FlowSettings]) -> StartRights:
    """Of a flow among `flows`, those of its file."""
    policy, journals = settings.policy, journals_of(settings, flows)
    written = [policy.checkpoints_topic(settings.flow.source), *[policy.heartbeats_topic] * settings.emit_heartbeats]
    return StartRights(
        tuple(Right("topic", name, READ_SOURCE) for name in journals.theirs),
        (
            *(Right("topic", name, OWN_JOURNAL) for name in journals.own),
            *(Right("topic", name, ("WRITE",)) for name in written),
            Right("group", worker_group(settings.flow), ("READ",)),
        ),
    )


@dataclass
class Preflight:
    """The checks of one flow over two connected clients. `flows`: those of its file."""

    settings: FlowSettings
    source_settings: ClusterSettings
    target_settings: ClusterSettings
    source: ClusterClient
    target: ClusterClient
    flows: Collection[FlowSettings] = ()
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
                await asyncio.gather(self._start_rights(of_source=True), self._topic_rights(source, target))
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
        await self._start_rights(of_source=False)
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
            *(("drlib.journal.replication.factor", settings.journal_replication_factor, target, name)
              for name in self._journals.own),
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
        began = self._journals.own[0] in target.topics
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
        """Check that the journals are compacted, have the configured lanes, and were started between these clusters."""
        first, settings = self._journals.own[0], self.settings
        there = {n: each for n in self._journals.own if (each := target.topics.get(n)) and not each.error_code}
        for name, topic in there.items():
            lanes = len(topic.partitions)
            if lanes != settings.lanes:
                self.findings.append(
                    LanesChanged(
                        f"drlib.lanes = {settings.lanes} cannot be used for {settings.flow}",
                        f"its journal {name} was started with {lanes} lanes, and a partition's entries are in the lane it "
                        "had then",
                        f"Set drlib.lanes = {lanes}.",
                    )
                )
            await self._policy(name)
        if first not in there:
            return
        entries = await read_journal(self.target, TopicPartition(first, 0))
        pinned = next((e for e in reversed(entries) if isinstance(e, Clusters)), None)
        if pinned is None:
            return
        for cluster, client, meant in (
            (self.source_settings, self.source, pinned.source_id),
            (self.target_settings, self.target, pinned.target_id),
        ):
            if client.cluster_id != meant and not cluster.cluster_id:
                self.findings.append(_wrong(cluster, meant, client.cluster_id, journal=first))

    @property
    def _journals(self) -> Journals:
        return journals_of(self.settings, self.flows)

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
                    f"{self.target_settings.tool('kafka-configs.sh')} "
                    f"--alter --topic {name} --add-config cleanup.policy=compact",
                )
            )

    async def _start_rights(self, *, of_source: bool) -> None:
        wanted = start_rights(self.settings, self.flows)
        lacking = await asyncio.gather(
            _lacking(self.target, wanted.target, self.target_settings),
            _lacking(self.source, wanted.source if of_source else (), self.source_settings),
        )
        self.findings += chain(*lacking)

    async def _topic_rights(self, source: ClusterMetadata, target: ClusterMetadata) -> None:
        flow, policy = self.settings.flow, self.settings.policy
        chosen = [name for name in source.topics if self.settings.mirrors_topic(name)]
        mirrors = [mirror for name in chosen if (mirror := policy.remote_topic(flow.source, name)) in target.topics]
        read, written = await asyncio.gather(topic_rights(self.source, chosen), topic_rights(self.target, mirrors))
        self._waiting("SourceUnauthorized", read, READ_SOURCE, self.source_settings)
        self._waiting("TargetUnauthorized", written, WRITE_MIRROR, self.target_settings)

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


async def _lacking(client: ClusterClient, wanted: Sequence[Right], cluster: ClusterSettings) -> list[NotAuthorized]:
    """What is missing of the rights on topics that exist, or may not be described, and on groups."""
    if not wanted:
        return []
    groups = [right for right in wanted if right.kind == "group"]
    topics, of_groups = await asyncio.gather(
        topic_rights(client, [right.name for right in wanted if right.kind == "topic"]),
        asyncio.gather(*(group_rights(client, right.name) for right in groups)),
    )
    granted = {right: topics.get(right.name) for right in wanted} | dict(zip(groups, of_groups, strict=True))
    found = (missing(right, have) for right, have in granted.items() if have is not None)
    return [not_authorized(lack, cluster) for lack in found if lack is not None]


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
        f"{command(right, principal, cluster.bootstrap_servers, config=cluster.command_config)}{unknown}",
    )


@dataclass(frozen=True, slots=True)
class Grants:
    """Commands that grant the rights which a running flow was refused. `flows`: those of its file."""

    settings: FlowSettings
    source: ClusterSettings
    target: ClusterSettings
    flows: Collection[FlowSettings] = ()

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
        theirs = start_rights(own, self.flows).source
        if (unread := next((right for right in theirs if right.name in error.topics), None)) is not None:
            return not_authorized(unread, self.source)
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
