"""Which values of a file may be shown or sent to another process, and how: an allow-list of keys.

Rules: a key is public when its name, without cluster, flow and client, is one that drlib uses or that Kafka's TLS and SASL
clients have, and that holds no secret. The value of any other key counts as a secret, so a misspelt key and one of a plugin
do: references are shown as they are written, the rest is hidden. An address is shown without a login and a query.
Not for: whether a key has an effect (`drlib.config.keys`); values that are resolved, which are never shown.
"""

from collections.abc import Iterable
from typing import Final

from drlib.errors import UsageError
from drlib.kafka.java_formats import jaas
from drlib.kafka.java_formats.references import hidden, only_references, refers, without_references
from drlib.outgoing import http_request


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Kafka's keys of TLS and SASL without a secret: kinds, names, places of files, times.
PUBLIC_SECURITY: Final = _names(
    """
    security.protocol security.providers
    ssl.endpoint.identification.algorithm ssl.enabled.protocols ssl.cipher.suites ssl.client.auth ssl.protocol ssl.provider
    ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation ssl.engine.factory.class
    ssl.truststore.location ssl.truststore.type ssl.truststore.certificates
    ssl.keystore.location ssl.keystore.type
    sasl.mechanism sasl.login.class sasl.login.callback.handler.class sasl.client.callback.handler.class
    sasl.kerberos.service.name sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.token.endpoint.plain.http sasl.oauthbearer.scope
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    """
)
# MirrorMaker 2's and drlib's own.
PUBLIC_SETTINGS: Final = _names(
    """
    admin.timeout.ms auto.offset.reset bootstrap.servers checkpoints.topic.replication.factor client.id client.rack
    clusters config.properties.exclude config.property.filter.class config.providers config.storage.topic
    drlib.copied.records.journal drlib.clients.address drlib.cluster.id drlib.forecast.interval.ms drlib.group.positions.poll.ms
    drlib.journal.replication.factor
    drlib.lanes drlib.metrics.address drlib.open.transaction.warning.seconds drlib.own.records.journal
    drlib.producers.redirected drlib.remirror.topics
    drlib.retention.warning.seconds drlib.session.timeout.ms drlib.source.loss.policy drlib.start.timestamp
    drlib.sync.group.offsets.back.enabled drlib.sync.local.topics.enabled drlib.sync.quotas.enabled
    drlib.takeover.group drlib.target.loss.policy drlib.witness.ca emit.checkpoints.enabled
    emit.checkpoints.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds
    emit.offset-syncs.enabled enabled group.filter.class groups groups.exclude heartbeats.replication.enabled
    heartbeats.topic.replication.factor offset-syncs.topic.location offset-syncs.topic.replication.factor
    offset.lag.max offset.storage.topic refresh.groups.enabled refresh.groups.interval.seconds refresh.topics.enabled
    refresh.topics.interval.seconds replication.factor replication.policy.class
    replication.policy.internal.topic.separator.enabled replication.policy.separator sync.group.offsets.enabled
    sync.group.offsets.interval.seconds sync.topic.acls.enabled sync.topic.acls.interval.seconds
    sync.topic.configs.enabled sync.topic.configs.interval.seconds topic.filter.class topics topics.exclude
    use.defaults.from
    """
)
PUBLIC: Final = PUBLIC_SECURITY | PUBLIC_SETTINGS
_URLS: Final = frozenset({"sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url"})
_HOSTS: Final = frozenset({"bootstrap.servers", "drlib.clients.address", "drlib.metrics.address"})
# Options of login modules that are no secret.
_PUBLIC_OPTIONS: Final = frozenset({"username", "clientid", "scope", "tokenauth"})
_UNSECURED: Final = "unsecuredlogin"  # options of unsigned tokens, which anyone can make


def without_scope(key: str, aliases: Iterable[str]) -> str:
    """`A->B.topics` and `A.topics` are `topics`, for the clusters of the file."""
    named = tuple(aliases)
    scopes = [*(f"{source}->{target}." for source in named for target in named), *(f"{alias}." for alias in named)]
    return next(
        (key.removeprefix(scope) for scope in sorted(scopes, key=len, reverse=True) if key.startswith(scope)), key
    )


def shown(name: str, text: str) -> str:
    """The value `text` of `name`, a key without cluster, flow and client, as it may be printed."""
    if name not in PUBLIC:
        return hidden(text)
    if name in _HOSTS and "@" in text:
        return hidden(text)
    return _shown_url(text.strip()) if name in _URLS and text.strip() else text


def holds_secret(name: str, text: str) -> bool:
    """Whether a secret is written out in the value `text` of `name`, a key without cluster, flow and client."""
    if not text.strip() or only_references(text):
        return False
    if name in PUBLIC:
        return shown(name, text).strip() != text.strip()
    if not name.endswith("jaas.config"):
        return True
    try:
        options = jaas.parse(text, name).options
    except UsageError:
        return True
    return any(
        option.lower() not in _PUBLIC_OPTIONS
        and not option.lower().startswith(_UNSECURED)
        and not only_references(value)
        for option, value in options.items()
        if value
    )


def _shown_url(text: str) -> str:
    """`text` where it has a host and a path only; without them what of it can be shown."""
    if refers(text):
        plain = without_references(text)
        return hidden(text) if set(plain) & set("@?#") else text
    try:
        address = http_request.parse(text)
    except http_request.NotAnAddress:
        return hidden(text)
    return f"{address}{address.target.partition('?')[0]}" if set(text) & set("?#") else text
