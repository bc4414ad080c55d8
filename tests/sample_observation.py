"""A flow that was observed without a fault, for tests of readiness."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from drlib.drill.producer_ids.rules import ComparedIds
from drlib.drill.readiness.checks.objectives import CheckContext
from drlib.drill.readiness.checks.observations import (
    AddressCertificates,
    ClusterAnswer,
    ClusterIdentity,
    Durability,
    FlowObservation,
    LastHeartbeat,
    MirrorStatus,
    MirrorTopics,
    PastDrill,
    PastDrills,
    ProducerTopics,
    Readers,
    SettingsDrift,
    TargetPosition,
    WritersObserved,
)
from drlib.drill.readiness.score import DAY_S
from drlib.drill.writers.rules import Standby, StandbyWriters
from drlib.kafka.admin.descriptions import ConfigSource, ConfigValue
from drlib.kafka.net.cluster_client import PartitionMetadata, TopicMetadata
from drlib.mirror.monitor.flow_view import FlowView, LaneView
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.status.event_log import Event
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind

NOW = 1_795_255_200_000
FLOW = "LEFT->RIGHT"
CONTEXT = CheckContext("mm2.properties", "left:9092", "right:9092")
ORDERS = TopicPartition("orders", 0)
MIRROR = TopicPartition("LEFT.orders", 0)
WEEK_MS = 7 * DAY_S * 1000


def observation(**changes: object) -> FlowObservation:
    """A flow where every check is ok, with `changes` in place of fields of it."""
    faultless = FlowObservation(
        flow=FLOW,
        at_ms=NOW,
        target=ClusterAnswer("RIGHT", "right:9092", 3),
        source=ClusterAnswer("LEFT", "left:9092", 3),
        identities=(ClusterIdentity("LEFT", "a", "a"), ClusterIdentity("RIGHT", "b", "b")),
        obstacles=(),
        mirror=mirror(),
        retention_ms={"orders": WEEK_MS},
        heartbeat=LastHeartbeat(NOW - 900, 1),
        translations=(translation(TranslationKind.EXACT, offset=5),),
        readers=Readers(1, ()),
        target_positions=(on_target(5, 5, 9),),
        topics=topics(1, 1),
        settings=(SettingsDrift("orders", "LEFT.orders"),),
        durability=durability(),
        producer_topics=producer_topics(),
        producer_ids=ComparedIds(1, 1),
        certificates=AddressCertificates((), {}),
        drills=PastDrills("runs", (drill("pass", 3),)),
        writers=WritersObserved(None, StandbyWriters(Standby("RIGHT", "LEFT", 0, "no drill moved it"), partitions=1)),
    )
    return replace(faultless, **changes)  # type: ignore[arg-type]


def mirror(
    state: str = "mirroring",
    *,
    members: int | None = 1,
    answered: int = 1,
    unowned: tuple[int, ...] = (),
    events: tuple[Event, ...] = (),
    partitions: tuple[PartitionStatus, ...] = (),
    source_error: str = "",
    mirror_maker: MirrorMakerFlow | None = None,
) -> MirrorStatus:
    """Two lanes; `answered` workers."""
    lanes = tuple(LaneView(n, "w", "not owned" if n in unowned else "owned", 1, 0, 0, 1, 0) for n in range(2))
    workers = tuple(f"w{n}" for n in range(answered))
    view = FlowView(
        FLOW, state, NOW, members, workers, lanes, partitions, events, None, None, None, mirror_maker=mirror_maker
    )
    return MirrorStatus(view, source_error=source_error)


def behind(records: int | None, seconds: float | None, as_of_ms: int = NOW, **outlook: object) -> PartitionStatus:
    """Partition 0 of the orders, that many records behind, None when the source's log end is not known."""
    forecast = Outlook(lag_s=seconds, **outlook)  # type: ignore[arg-type]
    end = -1 if records is None else 100 + records
    return PartitionStatus(
        "orders", 0, "LEFT.orders", 0, 100, 100, end, 100, outlook=forecast, as_of_ms=as_of_ms
    )  # fmt: skip


def translation(
    kind: TranslationKind, records: int = 0, expired: int = 0, *, offset: int = 70, as_of_ms: int = NOW
) -> GroupTranslation:
    return GroupTranslation("billing", ORDERS, offset, MIRROR, Translation(offset, kind, records, expired), as_of_ms)


def on_target(committed: int, translated: int, log_end: int, in_use: bool = False) -> TargetPosition:
    return TargetPosition(translation(TranslationKind.EXACT, offset=translated), committed, log_end, in_use)


def topic(name: str, partitions: int, replicas: int = 3, in_sync: int = 3, leaderless: int = 0) -> TopicMetadata:
    rows = {
        n: PartitionMetadata(n, -1 if n < leaderless else 0, 0, tuple(range(replicas)), tuple(range(in_sync)), 0)
        for n in range(partitions)
    }
    return TopicMetadata(name, uuid.UUID(int=1), 0, rows, False)


def topics(source: int, target: int | None) -> MirrorTopics:
    """Orders with that many partitions on both sides; None: there is no mirror topic."""
    mirrors = {} if target is None else {"LEFT.orders": topic("LEFT.orders", target)}
    return MirrorTopics({"orders": "LEFT.orders"}, {"orders": topic("orders", source)}, mirrors)


def durability(
    replicas: int = 3, in_sync: int = 3, leaderless: int = 0, minimum: int | None = 2, brokers: int = 3
) -> Durability:
    value = None if minimum is None else str(minimum)
    settings = {"LEFT.orders": (ConfigValue("min.insync.replicas", value, ConfigSource.DEFAULT),)}
    return Durability(brokers, brokers, (topic("LEFT.orders", 1, replicas, in_sync, leaderless),), settings)


def producer_topics(
    target: int | None = 1, *, here: Mapping[str, str] | None = None, there: Mapping[str, str] | None = None
) -> ProducerTopics:
    """Orders with one partition on the source and as many as `target` on the target; None: it does not exist there."""

    def values(settings: Mapping[str, str] | None) -> tuple[ConfigValue, ...]:
        return tuple(ConfigValue(name, value, ConfigSource.TOPIC) for name, value in (settings or {}).items())

    existing = {} if target is None else {"orders": topic("orders", target)}
    return ProducerTopics(
        ("orders",),
        {"orders": topic("orders", 1)},
        existing,
        {"orders": values(here)},
        {"orders": values(there)},
        {},
        (),
    )


def drill(verdict: str, days: float) -> PastDrill:
    return PastDrill(f"r-{verdict}-{days:g}", "failover-drill", verdict, int(NOW - days * DAY_S * 1000), str(FLOW))


def rehearsal(days: float) -> PastDrill:
    return PastDrill(
        "rehearsed", "rehearse-failover", "pass", int(NOW - days * DAY_S * 1000), str(FLOW), rehearsal=True
    )
