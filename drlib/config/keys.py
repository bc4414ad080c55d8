"""Every key of MirrorMaker 2, Kafka Connect and the Java clients, and its effect in drlib.

Rules: a key has an effect, or is known and reported with the reason why it has none, or is unknown. An unknown key that is
at most two letters away from a known one is an error; any other may belong to a plugin and is only reported. Names are those of
Kafka 4.3 (`MirrorSourceConfig`, `MirrorCheckpointConfig`, `MirrorHeartbeatConfig`, `DistributedConfig`,
`ProducerConfig`, `ConsumerConfig`, `AdminClientConfig`).
Not for: values (`drlib.config.values`) and scopes (`drlib.config.settings`).
"""

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from drlib.config.flow_settings import KEYS, Scope
from drlib.config.patterns.missing_topics import distance
from drlib.kafka.security.java_keys import DENIED, HONOURED


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLIENT_SCOPES: Final = (Scope.CONSUMER, Scope.PRODUCER)
FLOW_KEYS: Final = frozenset(key.name for key in KEYS if key.scope not in CLIENT_SCOPES)
# MirrorMaker 2 reads these under a flow only: its own definition lacks them, so it drops them at the top of the file.
UNDER_A_FLOW_ONLY: Final = frozenset(key.name for key in KEYS if key.scope is Scope.FLOW)
CONNECT_KEYS: Final = frozenset(key.name for key in KEYS if key.scope is Scope.CONNECT)
CLUSTER_KEYS: Final = frozenset({"bootstrap.servers", "drlib.cluster.id"}) | HONOURED
# Keys of the Java clients that drlib supports, by client.
CLIENT_KEYS: Final = {scope: frozenset(key.name for key in KEYS if key.scope is scope) for scope in CLIENT_SCOPES}
WITNESS_TOKEN: Final = "drlib.witness.token"
WITNESS_CA: Final = "drlib.witness.ca"
TOP_LEVEL_KEYS: Final = frozenset({"clusters", "config.providers", WITNESS_TOKEN, WITNESS_CA})


class Place(StrEnum):
    """Where a key is set: at the top of the file, under a cluster's alias, or under a flow."""

    TOP = "top"
    CLUSTER = "cluster"
    FLOW = "flow"


# Which clients' keys count, and where. Reading: `A->B.source.consumer.` beats `A.consumer.` beats `A->B.consumer.`
# (`MirrorConnectorConfig.sourceConsumerConfig`); writing: `A->B.producer.override.` beats `B.producer.`, because the
# records are written by the producer of Connect's worker (KIP-458).
_HONOURED: Final[Mapping[str, tuple[Scope, Sequence[Place]]]] = {
    "source.consumer.": (Scope.CONSUMER, (Place.FLOW,)),
    "consumer.": (Scope.CONSUMER, (Place.CLUSTER, Place.FLOW)),
    "producer.": (Scope.PRODUCER, (Place.CLUSTER,)),
    "producer.override.": (Scope.PRODUCER, (Place.FLOW,)),
}

SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.")
# Longest first, as `producer.override.` begins with `producer.`.
CLIENT_PREFIXES: Final = (
    *("source.cluster.", "target.cluster.", "producer.override.", "consumer.override.", "admin.override."),
    *(f"{side}{client}." for side in ("source.", "target.", "") for client in ("producer", "consumer", "admin")),
)

_NO_WORKER: Final = "drlib runs no Connect worker; it keeps its progress in the journal topic on the target"
_OWN_SECURITY: Final = "drlib and librdkafka do TLS and logins themselves and have no such setting"
_NOT_DECODED: Final = "records are copied as bytes and never converted"
_REMOVED: Final = (
    "Kafka 4 ignores this old name; the names are topics.exclude, groups.exclude, config.properties.exclude"
)
_BARE_CLIENT: Final = "a client's key has an effect under consumer. or producer. only, as in MirrorMaker 2"
_NOT_THAT_CLIENT: Final = (
    "the reading client is set by A.consumer. or A->B.source.consumer., "
    "the writing one by B.producer. or A->B.producer.override."
)

# Settings of the Java clients without effect in drlib, by reason.
_CLIENT: Final[dict[str, str]] = {
    key: why
    for why, keys in (
        (
            "batches are appended as the source holds them: size, codec and partition stay, and requests are filled "
            "with the batches that are ready",
            """
            batch.size buffer.memory linger.ms max.request.size compression.type compression.gzip.level
            compression.lz4.level compression.zstd.level partitioner.adaptive.partitioning.enable
            partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
            """,
        ),
        (
            "every append is idempotent and acknowledged by all in-sync replicas; after an unclear answer drlib reads the "
            "log before it sends again",
            """
            acks enable.idempotence delivery.timeout.ms max.block.ms max.in.flight.requests.per.connection
            transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
            """,
        ),
        (
            "positions are kept in the journal, and records that expired unread are recorded as lost, never skipped",
            "auto.commit.interval.ms enable.auto.commit",
        ),
        ("only committed records are mirrored", "isolation.level"),
        ("checksums are always checked", "check.crcs"),
        (
            "topics to mirror are selected by topics and topics.exclude",
            "allow.auto.create.topics exclude.internal.topics",
        ),
        (
            "workers share the lanes in their own group: see drlib.lanes and drlib.session.timeout.ms",
            """
            group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms max.poll.interval.ms
            max.poll.records partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
            share.acquire.mode internal.throw.on.fetch.stable.offset.unsupported
            """,
        ),
        (
            "drlib has no Java metrics; Prometheus reads drlib's at drlib.metrics.address",
            """
            auto.include.jmx.reporter enable.metrics.push metric.reporters metrics.num.samples metrics.recording.level
            metrics.sample.window.ms
            """,
        ),
        (
            "drlib's connections have their own deadlines and back-off, which the engine's fencing relies on",
            """
            client.dns.lookup connections.max.idle.ms default.api.timeout.ms metadata.max.age.ms metadata.max.idle.ms
            metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms reconnect.backoff.max.ms
            reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
            socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
            """,
        ),
        ("records are copied as bytes, without interceptors", "interceptor.classes"),
        ("env, file and directory references work without declaring a provider", "config.providers"),
        (
            "the engine sizes fetch requests by its memory and by the speed of the link and the target",
            "fetch.max.bytes max.partition.fetch.bytes fetch.max.wait.ms fetch.min.bytes",
        ),
        ("the operating system sizes socket buffers", "receive.buffer.bytes send.buffer.bytes"),
        (_NOT_THAT_CLIENT, "auto.offset.reset bootstrap.controllers client.id client.rack"),
    )
    for key in keys.split()
}
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
    config.storage.replication.factor offset.storage.replication.factor
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
    **_CLIENT,
    **dict.fromkeys(_SECURITY - HONOURED, _OWN_SECURITY),
    **dict.fromkeys(DENIED, _OWN_SECURITY),
    **dict.fromkeys(_WORKER, _NO_WORKER),
    **dict.fromkeys(_CONVERSION, _NOT_DECODED),
    "tasks.max": "parallelism is set by drlib.lanes and the number of workers",
    **dict.fromkeys(("topics.blacklist", "groups.blacklist", "config.properties.blacklist"), _REMOVED),
    **dict.fromkeys(("topics.whitelist", "groups.whitelist"), _REMOVED),
}
_REPORTED_PREFIXES: Final = (
    ("config.storage.", _NO_WORKER),
    ("offset.storage.", _NO_WORKER),
    ("status.storage.", _NO_WORKER),
    ("topic.creation.", _NO_WORKER),
    ("metrics.context.", _NO_WORKER),
    ("config.providers.", "env, file and directory references work without declaring a provider"),
    ("key.converter.", _NOT_DECODED),
    ("value.converter.", _NOT_DECODED),
    ("header.converter.", _NOT_DECODED),
    ("transforms.", _NOT_DECODED),
    ("predicates.", _NOT_DECODED),
)
# What a Connect worker takes at the top or under a cluster without a prefix is explained as the worker's.
_WORKERS_TOO: Final = _names("metric.reporters config.providers")
_KNOWN: Final = tuple(sorted(FLOW_KEYS | CLUSTER_KEYS | TOP_LEVEL_KEYS | frozenset(_REPORTED)))
_KNOWN_TO_CLIENTS: Final = tuple(sorted(frozenset(_CLIENT) | _SECURITY | CLUSTER_KEYS))


def without_client_prefix(key: str) -> str:
    """`consumer.fetch.max.bytes` is `fetch.max.bytes`; a key of MirrorMaker 2 that only looks like one stays whole."""
    if key in FLOW_KEYS or key in _REPORTED:
        return key
    return next((key.removeprefix(prefix) for prefix in CLIENT_PREFIXES if key.startswith(prefix)), key)


def why_not_used(key: str, place: Place | None = None) -> str | None:
    """Why a known key (without cluster or flow) has no effect at `place`; None when it has one, or is unknown.

    Without a `place`: why it has no effect anywhere.
    """
    if key in FLOW_KEYS:
        return _misplaced_flow_key(key, place)
    if key in CLUSTER_KEYS:
        return "a cluster's keys are set under its alias, not under a flow" if place is Place.FLOW else None
    if key in TOP_LEVEL_KEYS:
        return None if place in (Place.TOP, None) else "it has an effect only at the top of the file"
    bare = without_client_prefix(key)
    prefix = key.removesuffix(bare)
    if prefix and bare in CLUSTER_KEYS:
        return "all clients of a cluster share this setting; write it under the cluster's alias"
    scope, places = _HONOURED.get(prefix, (None, ()))
    if scope is not None and bare in CLIENT_KEYS[scope] and any(place in (where, None) for where in places):
        return None
    if prefix and any(bare in supported for supported in CLIENT_KEYS.values()) and place is Place.TOP:
        return "MirrorMaker 2 reads keys of clients under a cluster or a flow only; " + _NOT_THAT_CLIENT
    if not prefix and bare in _CLIENT and bare not in _WORKERS_TOO and place is not None:
        return _BARE_CLIENT
    if bare in _REPORTED:
        return _REPORTED[bare]
    return next((why for start, why in _REPORTED_PREFIXES if key.startswith(start)), None)


def _misplaced_flow_key(key: str, place: Place | None) -> str | None:
    if key in CONNECT_KEYS:
        return (
            "like MirrorMaker 2, drlib reads it at the top of the file or under the target"
            if place is Place.FLOW
            else None
        )
    if place in (Place.FLOW, None):
        return None
    if key == "enabled":
        return "enable each flow by its own key, such as A->B.enabled; this one would start every direction at once"
    if place is Place.TOP:
        return "MirrorMaker 2 reads it under a flow only" if key in UNDER_A_FLOW_ONLY else None
    if key.startswith("drlib."):
        return None
    return "like MirrorMaker 2, drlib reads it at the top of the file or under a flow, never under a cluster"


def is_known(key: str) -> bool:
    bare = without_client_prefix(key)
    return key in FLOW_KEYS | CLUSTER_KEYS | TOP_LEVEL_KEYS or bare in _CLIENT or why_not_used(key) is not None


def meant(key: str) -> str | None:
    """The known key that `key` misspells by at most two letters, if there is one."""
    bare = without_client_prefix(key)
    prefix = key.removesuffix(bare)
    candidates = _KNOWN_TO_CLIENTS if prefix else _KNOWN
    for candidate in difflib.get_close_matches(bare, candidates, n=3, cutoff=0.7):
        if distance(bare, candidate) <= min(2, len(candidate) // 4):
            return prefix + candidate
    return None


MEANINGS: Final[Mapping[str, str]] = {
    **{key.name: key.meaning for key in KEYS},
    "clusters": "the aliases of all clusters of this file",
    "config.providers": "the names under which references find Kafka's own providers of secrets",
    "bootstrap.servers": "host:port of some brokers, from which drlib learns the others",
    "security.protocol": "how connections are encrypted and authenticated",
    "drlib.cluster.id": "the cluster ID that this alias must have; empty: any",
    WITNESS_TOKEN: "the token that drlib witness and those who ask it hold: a reference",
    WITNESS_CA: "a PEM file with the authorities of witnesses at https:// addresses; unset: the system's",
    "ssl.endpoint.identification.algorithm": "https: a broker's certificate must be for its host name; empty: not checked",
    "ssl.enabled.protocols": "TLS versions: TLSv1.2, TLSv1.3",
    "ssl.key.password": "the password of an encrypted PEM private key",
    "ssl.truststore.location": "the authorities trusted to issue brokers' certificates; unset: the system's",
    "ssl.truststore.type": "PEM, PKCS12 or JKS",
    "ssl.truststore.password": "the password of a PKCS12 or JKS trust store",
    "ssl.truststore.certificates": "the authorities' certificates, PEM",
    "ssl.keystore.location": "drlib's certificate and private key, for brokers that require one",
    "ssl.keystore.type": "PEM, PKCS12 or JKS",
    "ssl.keystore.password": "the password of a PKCS12 or JKS key store",
    "ssl.keystore.key": "drlib's private key, PEM",
    "ssl.keystore.certificate.chain": "drlib's certificate, then its issuers, PEM",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "sasl.jaas.config": "the login: one of Kafka's login modules with its options",
    "sasl.login.callback.handler.class": "the source of bearer tokens: Kafka's own handlers only",
    "sasl.oauthbearer.token.endpoint.url": "the token endpoint, grant type client_credentials",
    "sasl.oauthbearer.token.endpoint.plain.http": "true: a token endpoint on another machine may be http://",
    "sasl.oauthbearer.scope": "the scope of the tokens",
    "sasl.oauthbearer.header.urlencode": "URL-encode the client's ID and secret in the Authorization header",
    "sasl.oauthbearer.client.credentials.client.id": "the client's ID at the token endpoint",
    "sasl.oauthbearer.client.credentials.client.secret": "the client's secret at the token endpoint",
}
SECURITY: Final = "a key of Kafka's TLS and SASL clients"
