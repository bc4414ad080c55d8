"""Which lane a partition belongs to, and which worker runs which lanes.

Rules: both are functions of names alone, so that every worker and every reader computes the same. The partitions of one
topic go to consecutive lanes. Workers own equally many lanes, give or take one; when a worker joins or leaves, most of the
others' lanes stay, because every lane moved costs a claim. A worker that is a member of several flows' groups has the same
lanes of each, as far as they have equally many lanes and workers: what it appended by one flow it need not read by the flow
back (`engine.reverse.appends`).
Not for: membership; the group protocol decides that.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType


def lane_of(topic: str, partition: int, lanes: int) -> int:
    """The lane, in [0, `lanes`), of a source partition."""
    if lanes < 1:
        raise ValueError(f"{lanes} lanes")
    return (zlib.crc32(topic.encode()) + partition) % lanes


def assign(
    lanes: int, members: Sequence[str], workers: Mapping[str, bytes] = MappingProxyType({})
) -> Mapping[str, tuple[int, ...]]:
    """The lanes of each member, ascending; every member has an entry, possibly an empty one. `workers`: by member, what
    identifies its worker in every group; a member without one is known in this group alone.

    Rendezvous hashing under a bound: (lane, member) pairs by weight, as long as the member has room.
    """
    if lanes < 0:
        raise ValueError(f"{lanes} lanes")
    shares: dict[str, list[int]] = {member: [] for member in sorted(set(members))}
    if not shares:
        return {}
    each, extra = divmod(lanes, len(shares))
    free = set(range(lanes))
    for _, lane, member in sorted(
        (_weight(lane, workers.get(member) or member.encode()), lane, member)
        for lane in range(lanes)
        for member in shares
    ):
        share = shares[member]
        if lane not in free or len(share) > each or (len(share) == each and not extra):
            continue
        extra -= len(share) == each
        share.append(lane)
        free.discard(lane)
    return {member: tuple(sorted(share)) for member, share in shares.items()}


def _weight(lane: int, worker: bytes) -> bytes:
    return hashlib.blake2b(worker, digest_size=8, key=lane.to_bytes(4)).digest()
