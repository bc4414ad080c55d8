"""Bytes of the classic consumer protocol (ConsumerProtocolSubscription and ConsumerProtocolAssignment, version 0).

The workers of a flow are an ordinary consumer group on the journal topic, so `kafka-consumer-groups.sh --describe`
shows which worker owns which lane. Every broker and tool reads version 0; only topics and partitions are needed.
`userData`, which tools do not read, has of a subscription a digest of what the worker mirrors and, where all members name
`BY_WORKER`, what identifies the worker in the groups of all its flows; and of an assignment the members that mirror something
else (`differing`). Workers of an earlier version name `BY_MEMBER` alone: the coordinator chooses what all of them have.
Not with kafka-python's `ConsumerProtocolAssignment`: it decodes null names and negative counts without an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from drlib.errors import DrlibError

PROTOCOL_TYPE = "consumer"
BY_WORKER = "drlib-worker-lanes"
BY_MEMBER = "drlib-lanes"
DIGEST_BYTES = 16
MOST_NAMED = 5


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data) or -1) + data


def subscription(topic: str, digest: bytes = b"", worker: bytes = b"") -> bytes:
    """Metadata of a member that subscribes to `topic`. `digest`: `DIGEST_BYTES`, or none and no `worker`."""
    return struct.pack(">hi", 0, 1) + _string(topic) + _bytes(digest + worker)


def encode(topic: str, partitions: Sequence[int], differing: Sequence[str] = ()) -> bytes:
    """Assignment of `partitions` of `topic`."""
    names = "\n".join(differing[:MOST_NAMED]).encode()
    if not partitions:
        return struct.pack(">hi", 0, 0) + _bytes(names)
    body = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _string(topic) + body + _bytes(names)


def differing(members: Mapping[str, bytes]) -> Mapping[str, tuple[str, ...]]:
    """For each member of a group, by its metadata: those that mirror something else. Without a digest, as workers of an earlier
    version are, a member differs from none."""
    read = {member: _user_data(data, _skip_topic)[:DIGEST_BYTES] for member, data in members.items()}
    digests = {member: digest for member, digest in read.items() if digest}
    return {
        member: tuple(sorted(m for m, d in digests.items() if d != digests[member])) if member in digests else ()
        for member in members
    }


def workers(members: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """What identifies the worker of each member of a group, by its metadata; empty where it does not say."""
    return {member: _user_data(data, _skip_topic)[DIGEST_BYTES:] for member, data in members.items()}


def decode_differing(data: bytes) -> tuple[str, ...]:
    """The members that mirror something else, of an assignment; none for bytes that are not one of ours."""
    names = _user_data(data, _skip_assigned)
    return tuple(names.decode(errors="replace").split("\n")[:MOST_NAMED]) if names else ()


def _user_data(data: bytes, skip: Callable[[bytes, int], int]) -> bytes:
    try:
        _, topics = struct.unpack_from(">hi", data, 0)
        at = 6
        for _ in range(topics):
            at = skip(data, at)
        (length,) = struct.unpack_from(">i", data, at)
    except struct.error:
        return b""
    return data[at + 4 : at + 4 + max(0, length)]


def _skip_topic(data: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(0, int(length))


def _skip_assigned(data: bytes, at: int) -> int:
    at = _skip_topic(data, at)
    (count,) = struct.unpack_from(">i", data, at)
    return at + 4 + 4 * max(0, int(count))


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
