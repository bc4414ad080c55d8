"""Every key that MirrorMaker 2, Kafka Connect and the Java clients know, and what becomes of it here.

Rules: a key is honoured, or known and reported once with the reason, or unknown. A key that is a slip of the pen away
from a known one is a mistake; any other unknown key belongs to some plugin and is only reported. Names are those of
Kafka 4.3 (`MirrorSourceConfig`, `MirrorCheckpointConfig`, `MirrorHeartbeatConfig`, `DistributedConfig`,
`ProducerConfig`, `ConsumerConfig`, `AdminClientConfig`).
Not for: values (`drlib.config.values`) and scopes (`drlib.config.settings`).
"""

from __future__ import annotations

import difflib
import string
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a flow is made of, whether written at the top, under a cluster or under a flow.
FLOW_KEYS: Final = _names(
    """
    enabled topics topics.exclude groups groups.exclude config.properties.exclude use.defaults.from
    replication.policy.class replication.policy.separator replication.policy.internal.topic.separator.enabled
    replication.factor heartbeats.topic.replication.factor checkpoints.topic.replication.factor
    offset-syncs.topic.replication.factor offset-syncs.topic.location emit.offset-syncs.enabled offset.lag.max
    refresh.topics.enabled refresh.topics.interval.seconds refresh.groups.enabled refresh.groups.interval.seconds
    sync.topic.configs.enabled sync.topic.configs.interval.seconds
    sync.group.offsets.enabled sync.group.offsets.interval.seconds
    emit.checkpoints.enabled emit.checkpoints.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds
    heartbeats.replication.enabled admin.timeout.ms topic.filter.class group.filter.class config.property.filter.class
    drlib.lanes drlib.metrics.address drlib.group.positions.poll.ms drlib.session.timeout.ms
    drlib.journal.replication.factor
    """
)
CLUSTER_KEYS: Final = frozenset({"bootstrap.servers", "security.protocol"})
TOP_LEVEL_KEYS: Final = frozenset({"clusters", "config.providers"})

ALIAS_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.")
# Longest first, as `producer.override.` begins with `producer.`.
CLIENT_PREFIXES: Final = (
    *("source.cluster.", "target.cluster.", "producer.override.", "consumer.override.", "admin.override."),
    *(f"{side}{client}." for side in ("source.", "target.", "") for client in ("producer", "consumer", "admin")),
)

_NO_WORKER: Final = "there is no Connect worker here; progress is kept in the journal topic on the target"
_NO_SECURITY: Final = "only PLAINTEXT connections are supported yet, so it has nothing to act on"
_OWN_CLIENTS: Final = "batches are copied by drlib's own connections, which size their requests themselves"
_NOT_DECODED: Final = "records are copied as bytes and never converted"
_NO_ACLS: Final = "ACLs are not copied yet; copy them before a failover"
_REMOVED: Final = (
    "Kafka 4 ignores this old name; the names are topics.exclude, groups.exclude, config.properties.exclude"
)

_CLIENT: Final = _names(
    """
    bootstrap.controllers client.dns.lookup client.id client.rack connections.max.idle.ms default.api.timeout.ms
    enable.metrics.push group.id group.instance.id heartbeat.interval.ms max.poll.interval.ms metadata.max.age.ms
    metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    delivery.timeout.ms enable.idempotence interceptor.classes linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs enable.auto.commit
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.protocol group.remote.assignor
    isolation.level max.partition.fetch.bytes max.poll.records partition.assignment.strategy config.providers
    internal.throw.on.fetch.stable.offset.unsupported share.acknowledgement.mode share.acquire.mode
    """
)
_SECURITY: Final = _names(
    """
    security.providers ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope ssl.client.auth
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    """
)
_WORKER: Final = _names(
    """
    config.storage.topic config.storage.replication.factor offset.storage.topic offset.storage.replication.factor
    offset.storage.partitions status.storage.topic status.storage.replication.factor status.storage.partitions
    offset.flush.interval.ms offset.flush.timeout.ms offset.storage.file.filename connect.protocol
    exactly.once.source.support exactly.once.support transaction.boundary transaction.boundary.interval.ms
    offsets.storage.topic scheduled.rebalance.max.delay.ms worker.sync.timeout.ms worker.unsync.backoff.ms
    rebalance.timeout.ms task.shutdown.graceful.timeout.ms plugin.path plugin.discovery topic.creation.enable
    topic.creation.groups topic.tracking.enable topic.tracking.allow.reset connector.client.config.override.policy
    inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms
    inter.worker.signature.algorithm inter.worker.verification.algorithms listeners admin.listeners
    rest.advertised.host.name rest.advertised.port rest.advertised.listener rest.extension.classes
    access.control.allow.origin access.control.allow.methods response.http.headers.config
    dedicated.mode.enable.internal.rest name connector.class config.action.reload errors.log.enable
    errors.log.include.messages errors.retry.delay.max.ms errors.retry.timeout errors.tolerance tasks.max.enforce
    connector.plugin.version forwarding.admin.class source.cluster.alias target.cluster.alias
    consumer.poll.timeout.ms metrics.context metric.names.formats add.source.alias.to.metrics
    """
)
_CONVERSION: Final = _names(
    """
    key.converter value.converter header.converter key.serializer value.serializer key.deserializer value.deserializer
    transforms predicates
    """
)
_REPORTED: Final[dict[str, str]] = {
    **dict.fromkeys(_CLIENT, _OWN_CLIENTS),
    **dict.fromkeys(_SECURITY, _NO_SECURITY),
    **dict.fromkeys(_WORKER, _NO_WORKER),
    **dict.fromkeys(_CONVERSION, _NOT_DECODED),
    "sync.topic.acls.enabled": _NO_ACLS,
    "sync.topic.acls.interval.seconds": _NO_ACLS,
    "tasks.max": "how much runs in parallel is set by drlib.lanes and the number of workers",
    **dict.fromkeys(("topics.blacklist", "groups.blacklist", "config.properties.blacklist"), _REMOVED),
    **dict.fromkeys(("topics.whitelist", "groups.whitelist"), _REMOVED),
}
_REPORTED_PREFIXES: Final = (
    ("config.storage.", _NO_WORKER),
    ("offset.storage.", _NO_WORKER),
    ("status.storage.", _NO_WORKER),
    ("topic.creation.", _NO_WORKER),
    ("metrics.context.", _NO_WORKER),
    ("config.providers.", "env and file references work without declaring a provider"),
    ("key.converter.", _NOT_DECODED),
    ("value.converter.", _NOT_DECODED),
    ("header.converter.", _NOT_DECODED),
    ("transforms.", _NOT_DECODED),
    ("predicates.", _NOT_DECODED),
)
_KNOWN: Final = tuple(sorted(FLOW_KEYS | CLUSTER_KEYS | TOP_LEVEL_KEYS | frozenset(_REPORTED)))
_KNOWN_TO_CLIENTS: Final = tuple(sorted(_CLIENT | _SECURITY | CLUSTER_KEYS))


def without_client_prefix(key: str) -> str:
    """`consumer.fetch.max.bytes` is `fetch.max.bytes`; a key of MirrorMaker 2 that only looks like one stays whole."""
    if key in FLOW_KEYS or key in _REPORTED:
        return key
    return next((key.removeprefix(prefix) for prefix in CLIENT_PREFIXES if key.startswith(prefix)), key)


def why_not_used(key: str) -> str | None:
    """Why a known key (without cluster or flow) has no effect here; None when it is honoured or not known."""
    if key in FLOW_KEYS or key in CLUSTER_KEYS or key in TOP_LEVEL_KEYS:
        return None
    bare = without_client_prefix(key)
    if bare != key and bare in CLUSTER_KEYS:
        return "a client of its own is not configured apart from its cluster; write it under the cluster's alias"
    if bare in _REPORTED:
        return _REPORTED[bare]
    return next((why for prefix, why in _REPORTED_PREFIXES if key.startswith(prefix)), None)


def is_known(key: str) -> bool:
    return key in FLOW_KEYS or key in CLUSTER_KEYS or key in TOP_LEVEL_KEYS or why_not_used(key) is not None


def meant(key: str) -> str | None:
    """The known key that the unknown `key` misspells by at most two letters, if there is one."""
    bare = without_client_prefix(key)
    prefix = key.removesuffix(bare)
    candidates = _KNOWN_TO_CLIENTS if prefix else _KNOWN
    for candidate in difflib.get_close_matches(bare, candidates, n=3, cutoff=0.7):
        if edit_distance(bare, candidate) <= min(2, len(candidate) // 4):
            return prefix + candidate
    return None


def edit_distance(one: str, other: str) -> int:
    """Letters to insert, drop, replace or swap with their neighbour (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]
