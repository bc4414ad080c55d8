"""What Kafka Connect stores about a MirrorMaker 2 flow: how far each source partition was copied, and what is configured.

Rules: a key is the JSON array [connector name, source partition], a value the JSON object {"offset": N}; N is the offset
of the last record whose copy was acknowledged, so the copy continues at N + 1. A null value deletes; of one partition the
last record counts. Names are MM2's own (`MirrorSourceConnector`) or Strimzi's (`A->B.MirrorSourceConnector`); entries of
other connectors are ignored. A key that cannot be read belongs to no partition and is skipped; a partition whose newest
value cannot be read is named, because that must not be mistaken for "nothing was copied".
Source: `KafkaOffsetBackingStore`, `ConnectorOffsetBackingStore`, `MirrorUtils.wrapPartition` (KIP-382).
Not for: reading the topics (`drlib.mirror.mm2.takeover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib import decoding
from drlib.errors import DrlibError
from drlib.model import Flow, TopicPartition

CONNECTOR: Final = "MirrorSourceConnector"


class ConnectRecordUnreadable(DrlibError):
    """A record in Connect's offsets or config topic that is not what Connect writes."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"Connect's {what} cannot be read", why, "Nothing was changed: find out who else writes to that topic."
        )


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The last copied offset by source partition; where it cannot be read, why; and what was skipped."""

    offsets: Mapping[TopicPartition, int]
    unreadable: Mapping[TopicPartition, ConnectRecordUnreadable]
    skipped: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """One record: the last copied offset of a source partition of cluster `cluster`, None where it was deleted."""

    connector: str
    cluster: str
    partition: TopicPartition
    offset: int | None


def decode_key(key: bytes | None) -> tuple[str, str, TopicPartition] | None:
    """Connector, source cluster and partition; None for another connector. Raises `ConnectRecordUnreadable`."""
    try:
        match decoding.json_value(key or b""):
            case [str(connector), _] if not connector.endswith(CONNECTOR):
                return None
            case [str(connector), {"cluster": str(cluster), "topic": str(topic), "partition": int(number)}]:
                if isinstance(number, bool) or not 0 <= number < 1 << 31:
                    raise ValueError("a partition has a number from 0 to 2147483647")
                return connector, cluster, TopicPartition(topic, number)
        raise ValueError("it is no source partition")
    except ValueError as error:
        raise ConnectRecordUnreadable(
            "offsets topic", f"the record with key {key!r:.200} is malformed ({error})"
        ) from error


def decode(key: bytes | None, value: bytes | None) -> SourceOffset | None:
    """The entry of a MirrorSourceConnector; None for another connector's. Raises `ConnectRecordUnreadable`."""
    identity = decode_key(key)
    return None if identity is None else SourceOffset(*identity, _decode_value(key, value))


def _decode_value(key: bytes | None, value: bytes | None) -> int | None:
    """The offset in the record with `key`; None where it was deleted. Raises `ConnectRecordUnreadable`."""
    try:
        match None if value is None else decoding.json_value(value):
            case None:
                return None
            case {"offset": int(offset)} if not isinstance(offset, bool) and offset >= 0:
                return offset
        raise ValueError("it has no offset")
    except ValueError as error:
        raise ConnectRecordUnreadable(
            "offsets topic", f"the record with key {key!r:.200} is malformed ({error})"
        ) from error


def copied(records: Iterable[tuple[bytes | None, bytes | None]], flow: Flow) -> StoredOffsets:
    """The last copied offset of each partition of `flow`, from the (key, value) pairs of the topic in log order.

    Where both names have an entry the larger offset counts: either is proof of what was copied.
    """
    names = (CONNECTOR, f"{flow}.{CONNECTOR}")
    newest: dict[tuple[str, TopicPartition], int | ConnectRecordUnreadable | None] = {}
    skipped: list[str] = []
    for key, value in records:
        try:
            identity = decode_key(key)
        except ConnectRecordUnreadable as error:
            skipped.append(error.why)
            continue
        if identity is None or identity[0] not in names or identity[1] != flow.source:
            continue
        try:
            newest[identity[0], identity[2]] = _decode_value(key, value)
        except ConnectRecordUnreadable as error:
            newest[identity[0], identity[2]] = error
    offsets: dict[TopicPartition, int] = {}
    unreadable: dict[TopicPartition, ConnectRecordUnreadable] = {}
    for (_, partition), stored in newest.items():
        if isinstance(stored, ConnectRecordUnreadable):
            unreadable[partition] = stored
        elif stored is not None:
            offsets[partition] = max(stored, offsets.get(partition, stored))
    return StoredOffsets(offsets, unreadable, skipped)


def source_connector_enabled(records: Iterable[tuple[bytes | None, bytes | None]], flow: Flow) -> bool:
    """Does Connect's config topic, given in log order, enable the source connector of `flow`?

    A dedicated MM2 runs a Connect group for every pair of clusters, only for heartbeats where the flow is off: its
    connector's configuration then has `enabled` = false. Without a configuration the answer is True.
    """
    return (source_connector(records, flow) or {}).get("enabled", "true").lower() != "false"


def source_connector(records: Iterable[tuple[bytes | None, bytes | None]], flow: Flow) -> Mapping[str, str] | None:
    """The newest configuration of the source connector of `flow` in Connect's config topic, given in log order.

    None without one; of one that was deleted `enabled` is false. Raises `ConnectRecordUnreadable`.
    """
    keys = {f"connector-{CONNECTOR}".encode(), f"connector-{flow}.{CONNECTOR}".encode()}
    found: Mapping[str, str] | None = None
    for key, value in records:
        if key not in keys:
            continue
        try:
            match {"properties": {"enabled": "false"}} if value is None else decoding.json_value(value):
                case {"properties": dict(properties)}:
                    found = {str(name): str(held) for name, held in properties.items()}
                case _:
                    raise ValueError("it has no properties")
        except ValueError as error:
            raise ConnectRecordUnreadable("config topic", f"the record with key {key!r:.200} is malformed") from error
    return found
