"""The two clusters of a flow: metadata, cluster IDs, what the mirror may do there, and the newest heartbeat.

Rules: a cluster that answers with another ID than the file names counts as one that does not answer: nothing it says is
used. One that refuses this host (certificate, login, a secret that is not here) is not called silent, as it may serve others:
every question that needs it says what is refused. Rights are those that `Preflight` checks, with its commands; while the source
does not answer, those on the target. A cluster of which mirrored partitions or coordinators are not led answers in part.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.checks.observations import (
    Advice,
    ClusterAnswer,
    ClusterIdentity,
    LastHeartbeat,
    Obstacle,
    Unanswered,
)
from drlib.drill.readiness.observe import ask as questions
from drlib.drill.readiness.observe.ask import refusal
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S, Refused, wire_client
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.kafka.net.authorized_operations import topic_rights
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, WrongCluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.journal.entries import Clusters, CommittedTransactions
from drlib.mirror.mm2.records import Heartbeat, MalformedRecord
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.preflight.checks import NotAuthorized, NotReady, Preflight, not_authorized
from drlib.mirror.preflight.required_acls import Right, missing
from drlib.mirror.preflight.way_back import REMEDY, way_back
from drlib.mirror.threads import in_daemon
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC
from drlib.model import TopicPartition

METADATA_S: Final = 5.0  # one request for metadata
NEWEST: Final = 500  # records of the heartbeats topic that are read: it holds those of every flow to the target

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class AskedCluster:
    """One cluster: a client, and its metadata or the error in place of it. The caller closes `client`."""

    settings: ClusterSettings
    client: ClusterClient | None
    metadata: ClusterMetadata | None
    error: DrlibError | None = None
    service: ClusterService | None = None

    @property
    def whole(self) -> bool:
        """Does every broker of it answer?"""
        return self.metadata is not None and self.service is not None and not self.service.silent

    @property
    def unanswered(self) -> Unanswered:
        """The answer to every question that needs this cluster, while it does not answer."""
        alias = self.settings.alias
        if isinstance(self.error, Refused | WrongCluster):
            return Unanswered(f"{alias}: {_why(self.error)}", self.error.remedy)
        how = "does not answer" if self.metadata is None else "answers in part"
        fix = self.refusals[0].remedy if self.refusals else f"Restore {alias}, then run drlib doctor again."
        return Unanswered(f"{alias} {how}", fix)

    @property
    def refusals(self) -> Sequence[SecurityFault]:
        """Why brokers of it cannot be used from here."""
        return () if self.service is None else [error for _, error in sorted(self.service.refused.items())]

    def answer(self, topics: Collection[str] = ()) -> ClusterAnswer:
        """`topics`: those that have to be led, for the cluster to count as one that answers."""
        alias, address = self.settings.alias, ",".join(self.settings.bootstrap_servers)
        if self.error is not None:
            return ClusterAnswer(
                alias, address, 0, _why(self.error), self.error.remedy, isinstance(self.error, Refused)
            )
        if self.service is not None and (lacks := _lacks(self.service, topics)):
            brokers = f"{self.service.answering} of {len(self.service.metadata.brokers)} brokers"
            why = "; ".join([f"{alias} answers in part ({brokers}): {lacks}", *_refusals(self.service)])
            refused = not _lacks(self.service.for_others, topics)
            return ClusterAnswer(alias, address, self.service.answering, why, _restore(self), refused)
        return ClusterAnswer(alias, address, len(self.metadata.brokers) if self.metadata else 0)

    async def ask(self, question: Coroutine[Any, Any, Answer], seconds: float) -> Answer | Unanswered:
        """`question`, unless this cluster does not answer; for up to twice as long where a quota of this user pauses it."""
        if self.metadata is None or self.client is None:
            question.close()
            return self.unanswered
        return await questions.ask(question, seconds, self.client.within(seconds, seconds))

    async def ask_blocking(self, work: Callable[[], Answer], seconds: float) -> Answer | Unanswered:
        """`work`, unless this cluster does not answer."""
        return self.unanswered if self.metadata is None else await questions.ask_blocking(work, seconds)


def _lacks(service: ClusterService, topics: Collection[str]) -> str:
    """What keeps the cluster from serving `topics` and groups; empty where nothing does."""
    not_led, (missing, coordinators) = service.not_led(topics), service.coordinators_missing
    texts = [f"{len(not_led)} partitions have no leader that answers"] if not_led else []
    if missing:
        texts.append(f"{missing} of {coordinators} partitions for groups have no coordinator")
    return ", ".join(texts)


def _refusals(service: ClusterService) -> list[str]:
    return [service.silent[node] for node in sorted(service.refused)]


def _restore(cluster: AskedCluster) -> str:
    silent = cluster.service.for_others.silent if cluster.service is not None else {}
    nodes = ", ".join(f"{node}" for node in sorted(silent)[:5])
    dead = f"Start the brokers of {cluster.settings.alias} that do not answer ({nodes})." if nodes else ""
    refused = next((error.remedy for error in cluster.refusals), "")
    return " ".join(filter(None, (dead, refused))) or "Start its brokers."


def _why(error: DrlibError) -> str:
    return error.why if isinstance(error, Refused) else refusal(error).why


async def connect(
    settings: ClusterSettings,
    *,
    as_target: bool = False,
    silence: Unreachable | None = None,
    answer_s: float = ANSWER_S,
) -> AskedCluster:
    """Ask a cluster for its metadata, `as_target` one that is mirrored to. Raises nothing a cluster can cause.

    `silence`: why it is known not to answer; it is then not asked.
    """
    client: ClusterClient | None = None
    try:
        client = wire_client(settings, client_id="drlib-doctor", timeout_s=METADATA_S, as_target=as_target)
        if settings.cluster_id:
            client.expect(settings.cluster_id)
        if silence is not None:
            return AskedCluster(settings, client, None, _silent(settings, silence))
        service = (await in_daemon(partial(examine, [settings], {}, answer_s)))[settings.alias]
        if isinstance(service, Unreachable):
            return AskedCluster(settings, client, None, _silent(settings, service))
        client.brokers = {n: each for n, each in service.metadata.brokers.items() if n not in service.silent}
        async with asyncio.timeout(METADATA_S):
            return AskedCluster(settings, client, await client.metadata(None), None, service)
    except (Unreachable, WrongCluster) as error:
        return AskedCluster(settings, client, None, error)
    except DrlibError as error:
        return AskedCluster(settings, client, None, Refused.by(error))
    except (TimeoutError, OSError) as error:
        why = str(error) or f"no answer within {METADATA_S:g} s"
        return AskedCluster(settings, client, None, _silent(settings, Unreachable("", why, "")))


def _silent(settings: ClusterSettings, error: Unreachable) -> Unreachable:
    if isinstance(error, Refused):
        return error
    return Unreachable(
        f"{settings.alias} at {', '.join(settings.bootstrap_servers)} cannot be reached",
        error.why,
        f"Check that its brokers run and that {settings.alias}.bootstrap.servers is right.",
    )


async def identities(
    flow: FlowSettings, source: AskedCluster, target: AskedCluster
) -> tuple[ClusterIdentity, ClusterIdentity]:
    """The IDs of source and target, and the pinned ones: from the file, else from the journal's newest claim."""
    journal = flow.policy.journal_topic(flow.flow.source)
    claimed: Clusters | None = None
    if target.client is not None and target.metadata is not None and journal in target.metadata.topics:
        entries = await read_journal(target.client, TopicPartition(journal, 0))
        claimed = next((entry for entry in reversed(entries) if isinstance(entry, Clusters)), None)
    return (
        _identity(source, journal, claimed.source_id if claimed else ""),
        _identity(target, journal, claimed.target_id if claimed else ""),
    )


def _identity(cluster: AskedCluster, journal: str, claimed: str) -> ClusterIdentity:
    settings = cluster.settings
    pinned = settings.cluster_id or claimed
    answered = cluster.metadata.cluster_id if cluster.metadata is not None else ""
    if isinstance(cluster.error, WrongCluster):
        answered = cluster.error.found
    address = ",".join(settings.bootstrap_servers)
    by_journal = "" if settings.cluster_id else journal
    wrong = WrongCluster(address, pinned, answered, alias=settings.alias, journal=by_journal)
    if isinstance(cluster.error, Refused):
        return ClusterIdentity(settings.alias, "", pinned, cluster.error.remedy, _why(cluster.error))
    return ClusterIdentity(settings.alias, answered, pinned, wrong.remedy)


async def obstacles(
    settings: MirrorSettings, flow: FlowSettings, source: AskedCluster, target: AskedCluster
) -> tuple[Obstacle, ...]:
    """What a worker refuses at its start. Raises `Unreachable` where a cluster stopped answering."""
    assert target.client is not None
    clients = source.client or target.client, target.client
    checks = Preflight(flow, source.settings, target.settings, *clients, settings.flows)
    errors: list[DrlibError] = []
    try:
        await (checks.run() if source.metadata is not None else checks.of_target())
    except NotReady as error:
        errors += error.findings
    except Unreachable:
        raise
    except DrlibError as error:
        errors.append(error)
    notices = tuple(checks.notices)
    if (notices or any(isinstance(error, NotAuthorized) for error in errors)) and await _mirror_runs(flow, target):
        errors = [error for error in errors if not isinstance(error, NotAuthorized)]
        notices = ()
    refused = [refusal(error) for error in errors if not isinstance(error, WrongCluster)]
    copied_back: dict[str, str] = {}
    if source.client is not None and source.metadata is not None:
        reverse = next((each for each in settings.flows if each.flow == flow.flow.reverse), None)
        looking = way_back(flow, reverse, source.client, target.client)
        copied_back = await looking.find() if looking is not None else {}
    return (
        *(Obstacle(topic, why, REMEDY) for topic, why in sorted(copied_back.items())),
        *(Obstacle("", reason.why, reason.fix) for reason in refused),
        *(Obstacle(notice.entity, notice.detail, notice.remedy) for notice in notices),
    )


async def advice(source: AskedCluster, maps: Maps) -> tuple[Advice, ...]:
    """What this user, as the mirror's, may not do and does not need. Nothing where the journal shows that the mirror does it.

    Raises `Unreachable` where the source stopped answering.
    """
    recorded = any(isinstance(entry, CommittedTransactions) for entry in maps.transactions)
    if source.client is None or recorded:
        return ()
    granted = (await topic_rights(source.client, [TRANSACTIONS_TOPIC])).get(TRANSACTIONS_TOPIC)
    lack = None if granted is None else missing(Right("topic", TRANSACTIONS_TOPIC, ("READ",)), granted)
    if lack is None:  # granted, or there are no transactions
        return ()
    refused = not_authorized(lack, source.settings)
    costs = "the mirror works without it, and does not know which partitions a transaction has"
    why = f"{refused.what}: {costs}, so that at a failover transactions.list determines few of them"
    return (Advice(TRANSACTIONS_TOPIC, why, refused.remedy),)


async def _mirror_runs(flow: FlowSettings, target: AskedCluster) -> bool:
    """Whether a worker is in the flow's group. It has the rights it needs, or reports each one it lacks as an event; what this
    command's own user may not do, who may be another one, says nothing of it."""

    def members() -> bool:
        with Cluster(target.settings, timeout_s=METADATA_S) as cluster:
            return bool(cluster.group_members(worker_group(flow.flow)))

    answer = await questions.ask_blocking(members, METADATA_S)
    return answer is True


def last_heartbeat(cluster: ClusterSettings, flow: FlowSettings, timeout_s: float) -> LastHeartbeat:
    """The newest heartbeat of this flow among the last `NEWEST` records of the target's heartbeats topic. Blocks."""
    interval_s = flow.emit_heartbeats_s if flow.emit_heartbeats else 0
    if not interval_s:
        return LastHeartbeat(None, 0)
    partition = TopicPartition(flow.policy.heartbeats_topic, 0)
    newest: int | None = None
    with Cluster(cluster, timeout_s=timeout_s) as target:
        if not target.topics([partition.topic]):
            return LastHeartbeat(None, interval_s)
        start, end = target.log_starts([partition])[partition], target.log_ends([partition])[partition]
        for record in target.read({partition: Range(max(start, end - NEWEST), end)}):
            try:
                heartbeat = Heartbeat.decode(record.key, record.value)
            except MalformedRecord:
                continue
            if (heartbeat.source, heartbeat.target) == (flow.flow.source, flow.flow.target):
                newest = max(newest or 0, heartbeat.timestamp_ms)
    return LastHeartbeat(newest, interval_s)
