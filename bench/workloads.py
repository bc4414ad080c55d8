"""The workloads: what lies on the source, where the link is, and which engines are worth running on it.

Rules: plain values; sizes are chosen so that the fastest engine takes several seconds on two cores and a slow one is
cut off at `limit_s`, its rate measured by then. Sizes are of keys and values, uncompressed. Not for: making records
(`wire_load`), running anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

RECORD_BYTES: Final = 1024
GIGABIT: Final = 125_000_000  # bytes per second
RTT_MS: Final = 200.0
FLOOR: Final = "floor"  # named among engines: the raw wire alone
ONE_WAY: Final = "drlib-same-names"  # under IdentityReplicationPolicy
BOTH_WAYS: Final = "drlib-both-ways"  # and with the flow back, which leaves out what the other one copied


class Kind(StrEnum):
    """How a workload is run."""

    CATCH_UP = "catch-up"  # a backlog, copied as fast as it goes
    LATENCY = "latency"  # a steady trickle
    MANY_TOPICS = "many-topics"  # a thousand topics, hardly any of them busy
    FAILOVER = "failover"  # the source is killed, and every group comes over
    FAILBACK = "failback"  # every group goes home, over both maps
    SWITCHOVER = "switchover"  # both serve, and applications that follow the pointer are moved


DRILLS: Final = frozenset({Kind.FAILOVER, Kind.FAILBACK, Kind.SWITCHOVER})


class Link(StrEnum):
    """Which cluster is behind the link of 200 ms round trip and 1 Gb/s."""

    NONE = "none"
    SOURCE = "source"
    TARGET = "target"


class Shape(StrEnum):
    """What kind of log the source topic has."""

    PLAIN = "plain"
    COMPACTED = "compacted"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, slots=True)
class Workload:
    """`records` of `RECORD_BYTES` each in batches of `batch_records`; `limit_s` counts from an engine's first record.

    Of a drill: `groups` with a position in each of `partitions`, and `records` a second while applications are moved.
    """

    name: str
    title: str
    kind: Kind = Kind.CATCH_UP
    partitions: int = 8
    records: int = 0
    batch_records: int = 15  # what fits the producers' default batch.size of 16,384
    codec: str = "none"
    shape: Shape = Shape.PLAIN
    link: Link = Link.NONE
    topics: int = 1
    active: float = 0.01  # of many topics, the share that gets records all the time
    groups: int = 0
    changing: bool = False  # while latency is measured: a second worker joins and leaves, and topics are created
    limit_s: float = 20.0
    engines: tuple[str, ...] = ("drlib", "mm2", "mm2-tuned", "floor")


GROUPS: Final = (50, 200, 1000)


def _drill(letter: str, title: str, kind: Kind, groups: int) -> Workload:
    name = f"{letter}-{groups}"
    return Workload(
        name,
        f"{title} of {groups:,} groups on 100 partitions",
        kind=kind,
        partitions=100,
        groups=groups,
        engines=("drlib",),
    )


WORKLOADS: Final = {
    w.name: w
    for w in (
        Workload("a", "8 partitions, 16 KB batches, uncompressed", records=1_000_000),
        Workload("b", "8 partitions, 128 KB batches, lz4", records=1_500_000, batch_records=320, codec="lz4"),
        Workload("c", "8 partitions, batches of one record", records=320_000, batch_records=1),
        Workload(
            "d", "1 partition, source behind 200 ms and 1 Gb/s", partitions=1, records=1_200_000, link=Link.SOURCE
        ),
        Workload(
            "e", "1 partition, target behind 200 ms and 1 Gb/s", partitions=1, records=1_200_000, link=Link.TARGET
        ),
        Workload(
            "f",
            "1,000 topics of 4 partitions, 10 % active",
            kind=Kind.MANY_TOPICS,
            partitions=4,
            topics=1000,
            active=0.1,
            engines=("drlib", "mm2", "mm2-tuned"),
        ),
        Workload(
            "f-20000",
            "5,000 topics of 4 partitions, 1 % active",
            kind=Kind.MANY_TOPICS,
            partitions=4,
            topics=5000,
            engines=("drlib",),
        ),
        Workload("g", "latency at 1,000 records/s", kind=Kind.LATENCY, engines=("drlib", "mm2", "mm2-tuned")),
        Workload(
            "g-changing",
            "latency at 1,000 records/s while a worker joins and leaves and topics are created",
            kind=Kind.LATENCY,
            changing=True,
            engines=("drlib", "mm2", "mm2-tuned"),
        ),
        Workload(
            "h-compacted",
            "a compacted topic",
            records=400_000,
            shape=Shape.COMPACTED,
            engines=("drlib", "mm2", "mm2-tuned"),
        ),
        Workload(
            "h-transactional",
            "a topic of transactions, one in ten aborted",
            records=400_000,
            shape=Shape.TRANSACTIONAL,
            engines=("drlib", "mm2", "mm2-tuned"),
        ),
        Workload(
            "i",
            "workload a with 1, 2 and 4 workers",
            records=1_000_000,
            engines=("drlib", "drlib-2", "drlib-4", "mm2-tuned-1", "mm2-tuned"),
        ),
        Workload(
            "m",
            "workload a under the same topic names, mirrored one way and both ways",
            records=1_000_000,
            engines=(ONE_WAY, BOTH_WAYS),
        ),
        *(_drill("j", "unplanned failover", Kind.FAILOVER, groups) for groups in GROUPS),
        *(_drill("k", "failback", Kind.FAILBACK, groups) for groups in GROUPS),
        Workload(
            "l",
            "planned switchover of running applications, there and back",
            kind=Kind.SWITCHOVER,
            partitions=8,
            records=1000,
            groups=5,
            engines=("drlib",),
        ),
    )
}
