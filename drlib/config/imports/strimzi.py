"""Strimzi's `KafkaMirrorMaker2` resources as a properties file.

Rules: both forms are read: `kafka.strimzi.io/v1` (a target, and mirrors with a source each) and its predecessors (clusters, and
mirrors between their aliases). A connector that a mirror lacks is off. A Secret becomes `${env:NAME}`, and certificates a file
below `/etc/drlib/certificates`, with a comment that says which key of which Secret belongs there. What runs the pods has no
counterpart and is named. Sources: Strimzi's custom resource definition, `KafkaMirrorMaker2Connectors`.
Not for: other resources in the same file, which are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from drlib.config.imports.connectors import CHECKPOINT, HEARTBEAT, OFF, SOURCE
from drlib.config.imports.document import Node
from drlib.config.imports.properties_text import MirrorFile
from drlib.errors import UsageError

KIND: Final = "KafkaMirrorMaker2"
CERTIFICATES: Final = "/etc/drlib/certificates"
_CONNECTORS: Final = {
    "sourceConnector": SOURCE,
    "checkpointConnector": CHECKPOINT,
    "heartbeatConnector": HEARTBEAT,
}
_PATTERNS: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_POD: Final = "it is about the pods that Strimzi runs; drlib runs where you start it"
_NO_COUNTERPART: Final = {
    **dict.fromkeys(
        (
            "image",
            "resources",
            "livenessProbe",
            "readinessProbe",
            "jvmOptions",
            "jmxOptions",
            "template",
            "clientRackInitImage",
        ),
        _POD,
    ),
    "replicas": "start as many workers of drlib as you need; they share the work by themselves",
    "version": "drlib is no part of Kafka's release",
    "logging": "drlib writes its events to standard error",
    "metricsConfig": "Prometheus reads drlib's metrics at drlib.metrics.address",
    "tracing": "drlib has no tracing",
    "rack": "set consumer.client.rack under the source's alias to the zone in which drlib runs",
    "externalConfiguration": "give drlib these variables and files yourself",
}
_CONNECTOR_FIELDS: Final = {
    "tasksMax": "parallelism is set by drlib.lanes and the number of workers",
    "pause": "drlib mirrors while it runs",
    "state": "drlib mirrors while it runs",
    "autoRestart": "drlib restarts what fails by itself",
    "version": "drlib is no part of Kafka's release",
    "listOffsets": "`drlib status` and `drlib translate` show positions",
    "alterOffsets": "positions are in drlib's journal and cannot be altered",
}
_WORKER_TOPICS: Final = {
    "groupId": ("drlib.takeover.group", "mirrormaker2-cluster"),
    "offsetStorageTopic": ("offset.storage.topic", "mirrormaker2-cluster-offsets"),
    "configStorageTopic": ("config.storage.topic", "mirrormaker2-cluster-configs"),
}
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES: Final = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", _SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", _SCRAM),
}


def is_strimzi(document: Node) -> bool:
    return isinstance(document.value, dict) and "kind" in document.value and "apiVersion" in document.value


def import_strimzi(documents: Sequence[Node]) -> MirrorFile:
    """The one `KafkaMirrorMaker2` among the documents as a file. Raises `UsageError`."""
    mirrors = [document for document in documents if is_strimzi(document) and document.required("kind").text() == KIND]
    if len(mirrors) != 1:
        raise UsageError(
            f"{documents[0].place} has {len(mirrors)} resources of kind {KIND}",
            "one mirror is imported at a time",
            f"Give a file with one {KIND}.",
        )
    file, spec = MirrorFile(), mirrors[0].required("spec")
    fields = spec.fields()
    clusters = _clusters(fields)
    file.values["clusters"] = ", ".join(clusters)
    for alias, cluster in clusters.items():
        _cluster(file, alias, cluster)
    file.values["emit.heartbeats.enabled"] = "false"  # Strimzi runs no heartbeats for other pairs
    targets: dict[str, Node] = {}
    for mirror in spec.required("mirrors").items():
        target = _mirror(file, fields, mirror)
        targets[target] = fields.get("target") or _of_alias(clusters, target, mirror)
    for alias, target_cluster in targets.items():
        _worker(file, alias, target_cluster, predecessor="clusters" in fields)
    for name, node in fields.items():
        if name not in ("target", "clusters", "connectCluster", "mirrors"):
            file.leave_out(node.place, _NO_COUNTERPART.get(name, "drlib does not know this field"))
    return file


def _clusters(spec: dict[str, Node]) -> dict[str, Node]:
    """The clusters by alias, in their order: sources first where the resource has a target of its own."""
    nodes = list(spec["clusters"].items()) if "clusters" in spec else []
    if "target" in spec:
        nodes += [mirror.required("source") for mirror in spec["mirrors"].items()] if "mirrors" in spec else []
        nodes.append(spec["target"])
    return {node.required("alias").text(): node for node in nodes}


def _of_alias(clusters: dict[str, Node], alias: str, mirror: Node) -> Node:
    if alias not in clusters:
        raise UsageError(
            f"{mirror.place} cannot be used",
            "its targetCluster is not one of the clusters",
            f"Write one of {', '.join(clusters)}.",
        )
    return clusters[alias]


def _cluster(file: MirrorFile, alias: str, cluster: Node) -> None:
    fields = cluster.fields()
    file.values[f"{alias}.bootstrap.servers"] = cluster.required("bootstrapServers").text()
    tls, authentication = fields.get("tls"), fields.get("authentication")
    kind = authentication.required("type").text() if authentication is not None else ""
    if tls is not None or kind:
        sasl = kind in _MODULES or kind == "oauth"
        protocol = f"SASL_{'SSL' if tls is not None else 'PLAINTEXT'}" if sasl else "SSL"
        file.values[f"{alias}.security.protocol"] = protocol
    if tls is not None:
        _trusted(file, alias, tls)
    if authentication is not None:
        _authentication(file, alias, kind, authentication)
    if "config" in fields:
        for name, node in fields["config"].fields().items():
            file.set_scoped(alias, name, node.text(), node.place)
    known = {"alias", "bootstrapServers", "tls", "authentication", "config", "statusStorageTopic", *_WORKER_TOPICS}
    for name in fields.keys() - known:
        file.leave_out(fields[name].place, "drlib does not know this field")


def _trusted(file: MirrorFile, alias: str, tls: Node) -> None:
    certificates = tls.fields().get("trustedCertificates")
    if certificates is None:
        return
    keys = []
    for certificate in certificates.items():
        fields = certificate.fields()
        which = fields.get("certificate") or fields.get("pattern")
        keys.append(
            f"{which.text() if which is not None else '*'} of Secret {certificate.required('secretName').text()}"
        )
    comment = f"put {' and '.join(keys)} into this file"
    file.set(f"{alias}.ssl.truststore.location", f"{CERTIFICATES}/{alias}/ca.pem", tls.place, comment)
    file.values[f"{alias}.ssl.truststore.type"] = "PEM"


def _authentication(file: MirrorFile, alias: str, kind: str, node: Node) -> None:
    fields = node.fields()
    if kind in _MODULES:
        mechanism, module = _MODULES[kind]
        secret = node.required("passwordSecret")
        variable = _variable(alias, "password")
        user = _quoted(node.required("username").text())
        login = f'{module} required username="{user}" password="${{env:{variable}}}";'
        file.values[f"{alias}.sasl.mechanism"] = mechanism
        file.set(f"{alias}.sasl.jaas.config", login, node.place, _export(variable, secret, "password"))
    elif kind == "tls":
        pair = node.required("certificateAndKey")
        for key, name in (("ssl.keystore.certificate.chain", "certificate"), ("ssl.keystore.key", "key")):
            variable = _variable(alias, name)
            file.set(f"{alias}.{key}", f"${{env:{variable}}}", pair.place, _export(variable, pair, name))
        file.values[f"{alias}.ssl.keystore.type"] = "PEM"
    elif kind == "oauth" and {"tokenEndpointUri", "clientId", "clientSecret"} <= fields.keys():
        variable = _variable(alias, "client_secret")
        client, url = _quoted(fields["clientId"].text()), fields["tokenEndpointUri"].text()
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        login = f'{module} required clientId="{client}" clientSecret="${{env:{variable}}}";'
        file.values[f"{alias}.sasl.mechanism"] = "OAUTHBEARER"
        file.set(f"{alias}.sasl.jaas.config", login, node.place, _export(variable, fields["clientSecret"], "key"))
        file.values[f"{alias}.sasl.oauthbearer.token.endpoint.url"] = url
        file.values[f"{alias}.sasl.login.callback.handler.class"] = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
    else:
        file.leave_out(node.place, f"set the security of {alias} yourself: this type of login is not converted")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _variable(alias: str, what: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{alias}_{what}").upper()


def _export(variable: str, secret: Node, name: str) -> str:
    return f"export {variable}: {secret.required(name).text()} of Secret {secret.required('secretName').text()}"


def _mirror(file: MirrorFile, spec: dict[str, Node], mirror: Node) -> str:
    """Write the flow of one mirror; returns its target."""
    fields = mirror.fields()
    if "target" in spec:
        source, target = mirror.required("source").required("alias").text(), spec["target"].required("alias").text()
    else:
        source, target = mirror.required("sourceCluster").text(), mirror.required("targetCluster").text()
    flow = f"{source}->{target}"
    for name, key in _PATTERNS.items():
        if name in fields:
            file.set_scoped(flow, key, fields[name].text(), fields[name].place)
    for name, connector in _CONNECTORS.items():
        if name not in fields:
            for key in OFF[connector]:
                file.values.setdefault(f"{flow}.{key}", "false")
            continue
        if connector == SOURCE:
            file.values[f"{flow}.enabled"] = "true"
        config = fields[name].fields().get("config")
        if connector == HEARTBEAT and not (config and "emit.heartbeats.enabled" in config.fields()):
            file.values[f"{flow}.emit.heartbeats.enabled"] = "true"
        for part, node in fields[name].fields().items():
            if part == "config":
                for key, value in node.fields().items():
                    file.set_scoped(flow, key, value.text(), value.place)
            else:
                file.leave_out(node.place, _CONNECTOR_FIELDS.get(part, "drlib does not know this field"))
    for name in fields.keys() - {"source", "sourceCluster", "targetCluster", *_CONNECTORS, *_PATTERNS}:
        file.leave_out(fields[name].place, "drlib does not know this field")
    return target


def _worker(file: MirrorFile, alias: str, cluster: Node, *, predecessor: bool) -> None:
    """Where a running MirrorMaker 2 keeps its progress, so that drlib takes it over."""
    fields = cluster.fields()
    for name, (key, default) in _WORKER_TOPICS.items():
        if name in fields:
            file.values[f"{alias}.{key}"] = fields[name].text()
        elif predecessor:
            file.values[f"{alias}.{key}"] = default
