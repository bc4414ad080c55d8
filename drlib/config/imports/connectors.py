"""MirrorMaker 2's three connectors as Kafka Connect takes them, as one properties file.

Rules: a connector is `{"name": ..., "config": {...}}`, its configuration alone, a list of them, or the answer of
`GET /connectors?expand=info`. `source.cluster.` and `target.cluster.` keys are the clusters', all others the flow's. What a
connector does is off where it is missing. Source: `MirrorConnectorConfig`, `ConnectorConfig`.
Not for: the Connect worker's own file, which has the names of the topics to take over from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from drlib.config.imports.document import Node
from drlib.config.imports.properties_text import MirrorFile
from drlib.errors import UsageError

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_CLASSES: Final = (SOURCE, CHECKPOINT, HEARTBEAT)  # in the order in which their values count
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_DONE: Final = frozenset({"name", "connector.class", "source.cluster.alias", "target.cluster.alias"})
OFF: Final = {
    SOURCE: ("enabled",),
    CHECKPOINT: ("emit.checkpoints.enabled", "sync.group.offsets.enabled"),
    HEARTBEAT: ("emit.heartbeats.enabled",),
}
_WORKER_FILE: Final = (
    "to take the flow over from Connect, set {target}.offset.storage.topic and {target}.config.storage.topic as the Connect "
    "worker's file has them, and {target}.drlib.takeover.group to its group.id"
)


def import_connectors(documents: Sequence[Node]) -> MirrorFile:
    """The connectors of all documents as one file. Raises `UsageError`."""
    file = MirrorFile()
    found: dict[str, list[Node]] = {name: [] for name in _CLASSES}
    for document in documents:
        for config in _configs(document):
            name = config.required("connector.class").text().removeprefix(_PACKAGE)
            if name in found:
                found[name].append(config)
            else:
                file.leave_out(config.place, "it is no connector of MirrorMaker 2")
    ordered = [config for name in _CLASSES for config in found[name]]
    if not ordered:
        raise UsageError(
            f"there is no connector of MirrorMaker 2 in {documents[0].place}",
            f"a connector.class is one of {', '.join(_PACKAGE + name for name in _CLASSES)}",
            "Give the connectors' configurations.",
        )
    flows = list(dict.fromkeys(_flow(config) for config in ordered))
    file.values["clusters"] = ", ".join(dict.fromkeys(alias for flow in flows for alias in flow))
    for config in ordered:
        _clusters(file, config)
    file.values["emit.heartbeats.enabled"] = "false"  # Connect runs no heartbeats for other pairs
    for flow in flows:
        for name in _CLASSES:
            configs = [config for config in found[name] if _flow(config) == flow]
            _connector(file, "->".join(flow), name, configs)
        file.left_out.append(_WORKER_FILE.format(target=flow[1]))
    return file


def _configs(document: Node) -> Iterator[Node]:
    """The configurations in a document, whichever form it has."""
    if isinstance(document.value, list):
        for item in document.items():
            yield from _configs(item)
        return
    fields = document.fields()
    if "connector.class" in fields:
        yield document
    elif "config" in fields:
        yield from _configs(fields["config"])
    elif fields and all(isinstance(node.value, dict) and "info" in node.value for node in fields.values()):
        for node in fields.values():
            yield from _configs(node.required("info"))
    else:
        raise UsageError(
            f"{document.place} is no connector", "it has no connector.class", "Give a connector's configuration."
        )


def _flow(config: Node) -> tuple[str, str]:
    fields = config.fields()
    target = fields["target.cluster.alias"].text() if "target.cluster.alias" in fields else "target"  # Kafka's default
    return config.required("source.cluster.alias").text(), target


def _clusters(file: MirrorFile, config: Node) -> None:
    for side, alias in zip(("source", "target"), _flow(config), strict=True):
        prefix = f"{side}.cluster."
        for name, node in config.fields().items():
            if name.startswith(prefix) and name not in _DONE:
                file.set_scoped(alias, name.removeprefix(prefix), node.text(), node.place)


def _connector(file: MirrorFile, flow: str, name: str, configs: Sequence[Node]) -> None:
    if not configs:
        for key in OFF[name]:
            file.values.setdefault(f"{flow}.{key}", "false")
        return
    for config in configs:
        fields = config.fields()
        if name == SOURCE:
            file.values[f"{flow}.enabled"] = fields["enabled"].text() if "enabled" in fields else "true"
        if name == HEARTBEAT and "emit.heartbeats.enabled" not in fields:
            file.values[f"{flow}.emit.heartbeats.enabled"] = "true"
        for key, node in fields.items():
            if key in _DONE or key == "enabled" or key.startswith(("source.cluster.", "target.cluster.")):
                continue
            if key.endswith(".converter") and node.text() == _BYTES:
                continue  # records are copied as bytes here, too
            file.set_scoped(flow, key, node.text(), node.place)
