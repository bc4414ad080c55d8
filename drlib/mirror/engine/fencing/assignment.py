"""Bytes of the classic consumer protocol (ConsumerProtocolSubscription and ConsumerProtocolAssignment, version 0).

The workers of a flow are an ordinary consumer group on the journal topic, so `kafka-consumer-groups.sh --describe`
shows which worker owns which lane. Every broker and tool reads version 0; only topics and partitions are needed.
Not with kafka-python's `ConsumerProtocolAssignment`: it decodes null names and negative counts without an error.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from drlib.errors import DrlibError

PROTOCOL_TYPE = "consumer"
PROTOCOL_NAME = "drlib-lanes"


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def subscription(topic: str) -> bytes:
    """Metadata of a member that subscribes to `topic`."""
    return struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", -1)


def encode(topic: str, partitions: Sequence[int]) -> bytes:
    """Assignment of `partitions` of `topic`."""
    if not partitions:
        return struct.pack(">hi", 0, 0) + struct.pack(">i", -1)
    body = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _string(topic) + body + struct.pack(">i", -1)


def decode(data: bytes) -> Mapping[str, tuple[int, ...]]:
    """Topics and partitions of an assignment; empty bytes mean nothing is assigned. Raises `DrlibError` on malformed bytes."""
    if not data:
        return {}
    assigned: dict[str, tuple[int, ...]] = {}
    try:
        _, topics = struct.unpack_from(">hi", data, 0)
        if topics < 0:
            raise struct.error(f"{topics} topics")
        offset = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, offset)
            if length < 0:
                raise struct.error(f"a topic's name of {length} bytes")
            topic = data[offset + 2 : offset + 2 + length].decode()
            offset += 2 + length
            (count,) = struct.unpack_from(">i", data, offset)
            assigned[topic] = struct.unpack_from(f">{count}i", data, offset + 4)
            offset += 4 + 4 * count
    except (struct.error, UnicodeDecodeError) as error:
        raise DrlibError(
            "the group leader sent an assignment that is no consumer assignment",
            str(error),
            "Check that only 'drlib mirror' workers use this group ID.",
        ) from error
    return assigned
