"""What each check concludes from an observation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_observation import (
    CONTEXT,
    FLOW,
    NOW,
    ORDERS,
    behind,
    drill,
    durability,
    mirror,
    observation,
    on_target,
    producer_topics,
    rehearsal,
    topic,
    topics,
    translation,
)

from drlib.client.bootstrap.rules import CertificateName
from drlib.drill.inventory.rules import Application, Inventory, Kind, Way
from drlib.drill.producer_ids.rules import AsKept, Collision, ComparedIds
from drlib.drill.readiness.checks.checks import OF_TOPICS, judge_flow
from drlib.drill.readiness.checks.mirror import UNREAD
from drlib.drill.readiness.checks.observations import (
    AddressCertificates,
    Advice,
    ClusterAnswer,
    ClusterIdentity,
    Durability,
    FlowObservation,
    LastHeartbeat,
    MirrorStatus,
    MirrorTopics,
    Obstacle,
    PastDrill,
    PastDrills,
    Readers,
    SettingsDrift,
    TargetPosition,
    Unanswered,
    UnmirroredReader,
    WritersObserved,
)
from drlib.drill.readiness.score import (
    CHECKS,
    DAY_S,
    HALVES,
    HOUR_S,
    Finding,
    Severity,
    check_of,
    gate,
    gate_without_source,
)
from drlib.drill.writers.rules import Standby, StandbyWriters, TopicWritten, Writer, Written
from drlib.errors import DrlibError, ReadinessError, Unreachable
from drlib.kafka.admin.descriptions import ConfigChange, Quota
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor import flow_view
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.status.event_log import Event
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import GroupTranslation, Translation, TranslationKind

DAY_MS, HOUR_MS = DAY_S * 1000, HOUR_S * 1000


def finding_of(check: str, **changes: object) -> Finding:
    """The only finding of `check`."""
    readiness = judge_flow(observation(**changes), CONTEXT)
    (finding,) = [f for f in readiness.findings if f.check == check]
    return finding


def translated(kind: TranslationKind, records: int = 0, expired: int = 0) -> tuple[GroupTranslation, ...]:
    return (translation(kind, records, expired),)


def lagging(left_s: float, warning: str = "") -> MirrorStatus:
    """One record behind, which may expire in `left_s`."""
    return mirror(partitions=(behind(1, 1.0, left_s=left_s, rule="retention.ms", warning=warning),))


def by_mirror_maker(*partitions: PartitionStatus, source_error: str = "", **found: object) -> MirrorStatus:
    """A flow that MirrorMaker 2 mirrors; its last heartbeat is a second old."""
    stands = MirrorMakerFlow(("checkpoints (3)",), NOW - 1000, checkpoints=3)
    return mirror(
        "mirrored by MirrorMaker 2",
        members=0,
        answered=0,
        partitions=partitions,
        source_error=source_error,
        mirror_maker=replace(stands, **found),  # type: ignore[arg-type]
    )


def up_to(records: int, seconds: float, least: int) -> PartitionStatus:
    """Behind by that many records at most."""
    most = behind(records, seconds)
    return replace(most, position=most.high_watermark - least)


def unread(error: DrlibError) -> Durability:
    """A mirror topic whose settings could not be read."""
    return replace(durability(), settings={"LEFT.orders": error})


def within(committed: int, offset: int, records: int) -> TargetPosition:
    """A position on the target, beside one that is known to within `records`."""
    plain = on_target(committed, offset, 20)
    known = Translation(offset, TranslationKind.BOUNDED, records)
    return replace(plain, translation=replace(plain.translation, translation=known))


def collision(source: int = 0, target: int = 0) -> Collision:
    return Collision(7, source, target, (ORDERS,), NOW - 1000, -1, "drlib.LEFT.RIGHT.0")


def certificates(named: bool | None) -> AddressCertificates:
    compared = CertificateName("s:1", "kafka.example", named, "" if named is not None else "no answer")
    return AddressCertificates(("kafka.example",), {"LEFT": (compared,)}, ("RIGHT",))


LOST = ClusterAnswer("LEFT", "l", 0, "LEFT cannot be reached: refused", "Start it.")
SHOP = Quota((("user", "shop"),), 9.0)
ANYONE = Quota((("client-id", ""),), 7.0)
BY = Standby("RIGHT", "LEFT", 0, "no drill moved it")
ON_BOTH = TopicWritten("orders", {"LEFT": Written(9), "RIGHT": Written(1)})
WRITER = Writer("orders", 7, 0, (0,), 3, NOW)
WRITERS = WritersObserved(None, StandbyWriters(BY, partitions=1))
CASES = [
    ("source-answers", {"source": ClusterAnswer("LEFT", "l", 0, "LEFT cannot be reached: refused", "Start it.")}, "critical",
     "LEFT cannot be reached: refused, so nothing can be mirrored", "Start it."),
    ("target-answers", {"target": ClusterAnswer("RIGHT", "r", 0, "RIGHT is down", "Start it.")}, "critical",
     "cannot be moved", "Start"),
    ("cluster-ids", {"identities": (ClusterIdentity("LEFT", "x", "a", "Correct it."),)}, "critical", "x and not a", "Correct"),
    ("cluster-ids", {"identities": (ClusterIdentity("LEFT", "", "a"),)}, "unknown",
     "did not answer; its ID should be a", "Restore it"),
    ("cluster-ids", {"identities": (ClusterIdentity("LEFT", "a", ""),)}, "ok", "LEFT is a, which the first claim pins", ""),
    ("rights", {"obstacles": (Obstacle("", "we may not READ", "kafka-acls.sh --add"),)}, "critical", "READ", "kafka-acls.sh"),
    ("worker", {"mirror": mirror("no worker", members=0, answered=0)}, "critical", "no member", "drlib mirror mm2.properties"),
    ("worker", {"mirror": mirror("incomplete", unowned=(1,))}, "critical", "1 has no owner", "drlib mirror"),
    ("worker", {"mirror": mirror("unknown", events=(Event("WorkerSilent", "h-1", "", NOW),))}, "unknown",
     "does not answer", "process"),
    ("worker", {"mirror": mirror("unknown")}, "unknown", "it is unknown", "drlib mirror"),
    ("worker", {"mirror": mirror("starting")}, "warn", "starting", "Wait"),
    ("worker", {"mirror": by_mirror_maker()}, "ok", "mirrored by MirrorMaker 2: its last heartbeat is 1.0 s old", ""),
    ("worker", {"mirror": by_mirror_maker()}, "ok", "taken over by drlib mirror", ""),
    ("worker", {"mirror": by_mirror_maker(heartbeat_ms=NOW - 31_000)}, "critical", "31 s old: nothing is mirrored",
     "Start MirrorMaker 2 again"),
    ("worker", {"mirror": by_mirror_maker(heartbeat_ms=None)}, "unknown", "nothing says whether it runs", "drlib mirror"),
    ("events", {"mirror": by_mirror_maker()}, "ok", "no event is open", ""),
    ("lag", {"mirror": by_mirror_maker(up_to(90, 2.0, 0))}, "ok", "at most 90 records not on the target", ""),
    ("lag", {"mirror": by_mirror_maker(up_to(90, 99.0, 0))}, "warn", "at least 0 records", "drlib status"),
    ("lag", {"mirror": by_mirror_maker(up_to(90, 99.0, 1))}, "critical", "at least 1 record:", "drlib status"),
    ("lag", {"mirror": by_mirror_maker(up_to(10_050, 9.0, 9_950))}, "critical", "at least 9,950 records", "drlib status"),
    ("lag", {"mirror": by_mirror_maker(up_to(20_000, 9.0, 0))}, "warn", "at most 20,000 records", "drlib status"),
    ("lag", {"mirror": by_mirror_maker(behind(None, None), unknown=(("orders-0", "no offset sync names it"),))}, "unknown",
     "orders-0 (no offset sync names it)", "offset-syncs.topic.location"),
    ("heartbeat", {"mirror": by_mirror_maker(), "heartbeat": LastHeartbeat(NOW - 31_000, 1)}, "warn", "31 s old",
     "Start MirrorMaker 2 again"),
    ("groups-exact", {"mirror": by_mirror_maker(), "translations": ()}, "advice", "nothing to check: no group has",
     "drlib inventory mm2.properties"),
    ("groups-exact", {"mirror": by_mirror_maker(checkpoints=0), "translations": ()}, "advice", "nothing to check: no group has",
     "drlib inventory mm2.properties"),
    ("groups-exact", {"mirror": by_mirror_maker(checkpoints=0)}, "warn", "without LEFT no position of any group would be known",
     "emit.checkpoints.enabled"),
    ("groups-exact", {"mirror": by_mirror_maker(), "translations": translated(TranslationKind.BOUNDED, 9)}, "warn",
     "known to within 9 records", "drlib translate"),
    ("events", {"mirror": mirror(events=(Event("Parked", "orders-0", "too large", NOW, remedy="Raise it."),))}, "critical",
     "Parked: too large", "Raise it."),
    ("events", {"mirror": mirror(events=(Event("TargetSlow", "RIGHT", "for 5 s", NOW),))}, "warn", "TargetSlow", ""),
    ("events", {"mirror": mirror(events=(Event("NoWorker", FLOW, "", NOW),))}, "ok", "no event", ""),
    ("events", {"mirror": mirror(answered=0)}, "unknown", "did not answer", "--metrics"),
    ("lag", {"mirror": mirror(partitions=(behind(12, 0.2),))}, "ok", "12 records not on the target", ""),
    ("lag", {"mirror": mirror(partitions=(behind(10_000, 30.0),))}, "ok", "at most 10,000 records and 30 s may be lost", ""),
    ("lag", {"mirror": mirror(partitions=(behind(12, 31.0),))}, "critical", "oldest 31 s old", "drlib status"),
    ("lag", {"mirror": mirror(partitions=(behind(10_001, 1.0),))}, "critical", "at most 10,000 records", "widen"),
    ("lag", {"mirror": mirror(partitions=(behind(None, None),))}, "unknown", "are unknown", "source"),
    ("lag", {"mirror": mirror(partitions=(behind(0, 0.0, NOW - 61_000),))}, "unknown", "expired evidence", "drlib doctor"),
    ("retention", {"mirror": lagging(40.0, "catching up takes longer")}, "critical", "catching up", "kafka-configs.sh"),
    ("retention", {"mirror": lagging(1800.0)}, "warn", "may expire in 30 min by retention.ms", "retention.ms=1209600000"),
    ("retention", {"mirror": lagging(86_400.0)}, "ok", "may expire in 24 h", ""),
    ("retention", {"mirror": lagging(3600.0)}, "ok", "records are kept for 7 d or longer; the first unmirrored", ""),
    ("retention", {"mirror": lagging(86_400.0), "retention_ms": {"orders": 0}}, "ok", "are kept for 0.0 s or longer", ""),
    ("retention", {"retention_ms": {"orders": 3_600_000}}, "ok", "records are kept for 60 min or longer", ""),
    ("retention", {"retention_ms": {"orders": 0}}, "warn", "keeps records for 0.0 s", "retention.ms=7200000"),
    ("retention", {"retention_ms": {"orders": -1}}, "ok", "no topic expires by age", ""),
    ("retention", {"retention_ms": {"a": -1, "b": 86_400_000, "c": 172_800_000}}, "ok", "kept for 24 h or longer", ""),
    ("retention", {"retention_ms": {"orders": 60_000}}, "warn", "keeps records for 60 s", "retention.ms=7200000"),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 31_000, 1)}, "warn", "31 s old, one is due every 1 s", "drlib mirror"),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 31_000, 10)}, "ok", "31 s old", ""),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 30_000, 1)}, "ok", "30 s old", ""),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 30_001, 1)}, "warn", "30 s old", "drlib mirror"),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 100_000, 10)}, "ok", "100 s old", ""),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW - 100_001, 10)}, "warn", "one is due every 10 s", "drlib mirror"),
    ("heartbeat", {"heartbeat": LastHeartbeat(NOW + 500, 1)}, "ok", "the last one is 0.0 s old", ""),  # by another clock
    ("heartbeat", {"heartbeat": LastHeartbeat(None, 1)}, "warn", "hold none of this flow", "drlib mirror"),
    ("heartbeat", {"heartbeat": LastHeartbeat(None, 0)}, "ok", "switched off", ""),
    ("groups-exact", {"translations": translated(TranslationKind.BEHIND, 9)}, "ok",
     "ahead of the mirror by 9 records in all", ""),
    ("groups-exact", {"translations": translated(TranslationKind.BEHIND, 10_000)}, "ok", "by 10,000 records in all", ""),
    ("groups-exact", {"translations": translated(TranslationKind.BEHIND, 10_001)}, "warn", "by 10,001 records: orders-0 at 70",
     "drlib translate mm2.properties --flow 'LEFT->RIGHT' --group billing"),
    ("groups-exact", {"translations": translated(TranslationKind.LOST, 3)}, "critical",
     "never reached the target: 3", "translate"),
    ("groups-exact", {"translations": translated(TranslationKind.LOST, 4900, 4900)}, "warn",
     "1 position before the log start on the target: 4,900 records that it had not read have expired there: orders-0 at 70",
     "translate"),
    ("groups-exact", {"translations": translated(TranslationKind.LOST, 1, 1)}, "warn", "1 record that it had not read has", ""),
    ("groups-exact", {"translations": translated(TranslationKind.LOST, 7, 4)}, "critical",
     "never reached the target: 3 records, and 4 more have expired there", "translate"),
    ("groups-exact", {"translations": translated(TranslationKind.UNKNOWN)}, "critical", "without a known", "translate"),
    ("groups-exact", {"translations": translated(TranslationKind.NEVER_MIRRORED)}, "warn", "before the first", "translate"),
    ("groups-exact", {"translations": ()}, "advice", "nothing to check: no group has",
     "drlib inventory mm2.properties"),
    ("groups-mirrored", {"readers": Readers(2, (UnmirroredReader("books", ("a", "b", "c", "d")),))}, "warn",
     "it reads a, b, c and 1 more", "Add a, b, c to 'LEFT->RIGHT.topics' in mm2.properties"),
    ("groups-mirrored", {"readers": Readers(2, (UnmirroredReader("books", ("a", "b", "c")),))}, "warn",
     "it reads a, b, c, which no enabled flow mirrors", "Add a, b, c to"),
    ("groups-mirrored", {"readers": Readers(2, (UnmirroredReader("books", ("LEFT.a",), ("LEFT.a",)),))}, "warn",
     "it reads LEFT.a, which no enabled flow mirrors", "LEFT.a: a cluster's alias is a part of the name"),
    ("groups-mirrored", {"readers": Readers(2, (UnmirroredReader("books", ("LEFT.a", "b"), ("LEFT.a",)),))}, "warn",
     "it reads LEFT.a, b, which", "Add b to"),
    ("groups-mirrored", {"readers": Readers(1, (), (("books", "refused"),))}, "unknown", "refused", "--group books"),
    ("groups-mirrored", {"readers": Readers(1, (), (), False)}, "unknown", "may be others",
     "User:PRINCIPAL --operation Describe --cluster"),
    ("groups-mirrored", {"readers": Readers(1, (), of_lines=("a\nb",))}, "warn", "its name has a line terminator",
     "Let 'LEFT->RIGHT.groups' in mm2.properties begin with (?s)"),
    ("groups-mirrored", {"readers": Readers(1, (), as_heartbeats=(("books", ("device.heartbeats",)),))}, "warn",
     "it reads device.heartbeats, which counts as heartbeats of another cluster", "Rename it"),
    ("groups-mirrored", {"readers": Readers(1, (), (), None)}, "unknown", "did not say", "again"),
    ("positions-ahead", {"target_positions": (within(8, 5, 3),)}, "ok", "none ahead", ""),
    ("positions-ahead", {"target_positions": (within(9, 5, 3),)}, "warn", "committed offset 9 is 1 ahead", "--to-offset 8"),
    ("positions-ahead", {"target_positions": (on_target(8, 5, 9),)}, "warn",
     "committed offset 8 is 3 ahead of the source's position, 5", "--reset-offsets --to-offset 5 --execute"),
    ("positions-ahead", {"target_positions": (replace(on_target(8, 5, 9), markers_only=True),)}, "ok", "none ahead", ""),
    ("positions-ahead", {"target_positions": (replace(on_target(8, 5, 9), read_on=True),)}, "ok", "none ahead", ""),
    ("positions-ahead", {"target_positions": (replace(on_target(9, 5, 7), read_on=True),)}, "warn", "past the log end", ""),
    ("positions-ahead", {"target_positions": (on_target(9, 9, 9),)}, "ok", "1 position on the target, none ahead", ""),
    ("positions-ahead", {"target_positions": (on_target(9, 9, 7),)}, "warn",
     "past the log end 7", "--to-offset 9"),
    ("positions-ahead", {"target_positions": (on_target(8, 5, 9, in_use=True),)}, "ok",
     "1 position of groups with members", ""),
    ("partitions", {"topics": topics(3, None)}, "critical", "no mirror topic", "drlib"),
    ("partitions", {"topics": replace(topics(3, 3), names={}, way_back=True)}, "advice", "no topic of the source", "Nothing"),
    ("positions-ahead", {"target_positions": ()}, "ok", "nothing to check: no group", ""),
    ("groups-mirrored", {"readers": Readers(0, ())}, "ok", "nothing to check: the source has no consumer group", ""),
    ("topic-settings", {"settings": ()}, "ok", "nothing to check: no mirror topic", ""),
    ("partitions", {"topics": topics(3, 2)}, "critical", "are not mirrored",
     "kafka-topics.sh --bootstrap-server right:9092 --alter --topic LEFT.orders --partitions 3"),
    ("partitions", {"topics": topics(2, 3)}, "warn", "other partitions",
     "kafka-topics.sh --bootstrap-server left:9092 --alter --topic orders --partitions 3"),
    ("topic-settings", {"settings": (SettingsDrift("orders", "LEFT.orders", (
        ConfigChange("cleanup.policy", "delete", "compact,delete"), ConfigChange("segment.bytes", "9", None))),)}, "warn",
     "cleanup.policy: delete -> compact,delete",
     "--add-config 'cleanup.policy=[compact,delete]' --delete-config segment.bytes"),
    ("topic-settings", {"settings": (SettingsDrift("orders", "LEFT.orders", error="refused"),)}, "unknown", "refused", "Grant"),
    ("producer-topics", {"producer_topics": producer_topics(None)}, "warn", "does not exist on the target",
     "kafka-topics.sh --bootstrap-server right:9092 --create --topic orders --partitions 1"),
    ("producer-topics", {"producer_topics": producer_topics(here={"retention.ms": "9", "segment.ms": "1"}, there={
        "retention.ms": "8", "segment.ms": "2"})}, "warn", "retention.ms: 8 -> 9", "--add-config retention.ms=9"),
    ("producer-topics", {"producer_topics": replace(producer_topics(), source={"orders": topic("orders", 2)})}, "warn",
     "1 partition on the target, 2 on the source", "--alter --topic orders --partitions 2"),
    ("producer-topics", {"producer_topics": replace(producer_topics(), locked_out={"orders": ("User:shop",)})}, "warn",
     "lets User:shop write", "--allow-principal User:shop --operation Write --topic orders"),
    ("producer-topics", {"producer_topics": replace(producer_topics(), locked_out=Unanswered("refused", "Grant it."))},
     "unknown", "refused", "Grant it."),
    ("producer-topics", {"producer_topics": replace(producer_topics(), quotas=Unanswered("refused", "Grant it."))},
     "unknown", "refused", "Grant it."),
    ("producer-topics", {"producer_topics": replace(producer_topics(), quotas=((SHOP, 5.0),))}, "warn",
     "producers of user shop may write 9 B/s on the source, and the target allows 5 B/s",
     "--entity-type users --entity-name shop --alter --add-config producer_byte_rate=9"),
    ("producer-topics", {"producer_topics": replace(producer_topics(), quotas=((ANYONE, None),))}, "warn",
     "producers of client-id (default) may write 7 B/s on the source, and the target has no such quota",
     "--entity-type clients --entity-default --alter"),
    ("producer-topics", {"producer_topics": replace(producer_topics(), names=None)}, "ok", "names of their sources", ""),
    ("durability", {"durability": durability(leaderless=1)}, "critical", "without a leader", "--describe"),
    ("durability", {"durability": durability(replicas=1, in_sync=1)}, "critical", "acks=all is refused",
     "min.insync.replicas=1"),
    ("durability", {"durability": durability(in_sync=1)}, "critical", "1 of 3 copies in sync", "--describe"),
    ("durability", {"durability": durability(in_sync=2)}, "warn", "2 of 3 copies in sync", "--describe"),
    ("durability", {"durability": durability(replicas=2, in_sync=2, minimum=1)}, "warn", "2 copies on 3 brokers, 3 required",
     "kafka-reassign-partitions.sh"),
    ("durability", {"durability": durability(minimum=3)}, "warn", "the loss of one broker stops producers", ""),
    ("durability", {"durability": durability(2, 2, 0, 2, brokers=2)}, "warn", "the loss of one broker stops producers", ""),
    ("durability", {"durability": durability(minimum=None)}, "unknown", "could not be read",
     "--operation DescribeConfigs --topic"),
    ("durability", {"durability": unread(ClusterRefused("s", "no right", "", code="TOPIC_AUTHORIZATION_FAILED"))}, "unknown",
     "could not be read", "--operation DescribeConfigs --topic"),
    ("durability", {"durability": unread(Unreachable("settings", "no answer within 1 s", "Check its brokers."))}, "unknown",
     "min.insync.replicas could not be read: no answer within 1 s", "Check its brokers."),
    ("durability", {"durability": durability(1, 1, 0, 1, brokers=1)}, "ok", "1 copy or more", ""),
    ("durability", {"durability": Durability(3, 3, (), {})}, "ok", "no mirror topic yet", ""),
    ("durability", {"durability": Durability(3, 3, (), {}, source_lost=True)}, "critical",
     "applications would move to a cluster without their records", "drlib status"),
    ("producer-ids", {"producer_ids": ComparedIds(1, 1, (collision(),))}, "warn",
     "epoch 0 on both clusters (there drlib.LEFT.RIGHT.0), orders-0: if the source's producer is redirected, records can be "
     "acknowledged and not written; the last records are 1.0 s old on the source, of unknown age on the target",
     "start it after"),
    ("producer-ids", {"producer_ids": ComparedIds(1, 1, (collision(1, 2),))}, "warn", "epoch 1 on the source and 2",
     "start it after"),
    ("producer-ids", {"producer_ids": ComparedIds(1, 0, (), (("orders-0", "no leader"),))}, "unknown", "not checked: no",
     "doctor"),
    ("producer-ids", {"producer_ids": ComparedIds(2, 1, as_kept=AsKept(NOW, NOW, "LEFT does not answer"))}, "unknown",
     "LEFT does not answer: checked as of", "Restore it"),
    ("producer-ids", {"producer_ids": ComparedIds(2, 1)}, "ok", "1 producer of 2 partitions on the source", ""),
    ("producer-ids", {"producer_ids": ComparedIds(0, 0)}, "ok", "no topic that applications write to is mirrored", ""),
    ("written-on-both", {"writers": replace(WRITERS, both=(ON_BOTH,))}, "warn",
     "records in the last hour: 9 on LEFT and 1 on RIGHT", "deny_write"),
    ("written-on-both", {"writers": replace(WRITERS, both=Unanswered("refused", "Grant it."))}, "unknown", "refused",
     "Grant it."),
    ("written-on-both", {}, "ok", "no topic is copied in both directions under one name", ""),
    ("standby-writers", {"writers": replace(WRITERS, standby=StandbyWriters(BY, writers=(WRITER,)))}, "warn",
     "orders on RIGHT, which stands by (no drill moved it), partition 0: 3 records", "Let it write to LEFT"),
    ("standby-writers", {"writers": replace(WRITERS, standby=Unanswered("refused", "Grant it."))}, "unknown", "refused",
     "Grant it."),
    ("standby-writers", {}, "ok", "RIGHT stands by (no drill moved it): no client wrote to 1 partition there", ""),
    ("address-certificates", {"certificates": certificates(False)}, "warn",
     "clients will refuse certificates: s:1 is not kafka.example", "subject alternative name"),
    ("address-certificates", {"certificates": certificates(None)}, "unknown", "not checked: s:1: no answer", "doctor"),
    ("address-certificates", {"certificates": AddressCertificates(("h",), {}, (), (("LEFT", "no answer"),))}, "unknown",
     "not checked: no answer", "doctor"),
    ("address-certificates", {"certificates": certificates(True)}, "ok",
     "1 certificate compared, all have kafka.example; RIGHT has no TLS", ""),
    ("address-certificates", {"certificates": AddressCertificates(("h",), {}, ("LEFT", "RIGHT"))}, "ok",
     "LEFT and RIGHT have no TLS", ""),
    ("address-certificates", {"certificates": AddressCertificates((), {})}, "ok", "no address that clients keep", ""),
    ("drill-age", {"drills": PastDrills("runs", ())}, "warn", "no drill of LEFT->RIGHT is recorded",
     "drlib run rehearse-failover mm2.properties -p 'flow=LEFT->RIGHT'"),
    ("drill-age", {"drills": PastDrills("runs", (replace(drill("pass", 3), flow="RIGHT->LEFT"),))}, "warn",
     "no drill of LEFT->RIGHT is recorded", "drlib run"),
    ("drill-age", {"drills": PastDrills("runs", (), ("a", "b"))}, "warn", "2 runs not verified", "drlib run"),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", 30),))}, "ok", "30 d ago, one is due every 30 d", ""),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", 30.001),))}, "warn", "one is due every 30 d", "drlib"),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", -1),))}, "ok", "was 0.0 s ago", ""),  # by another clock
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", -40),))}, "warn", "ended in the future", "drlib"),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", -40), drill("pass", 31)))}, "warn", "31 d ago", "drlib"),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", 31),))}, "warn", "31 d ago, one is due every 30 d", "drlib"),
    ("drill-age", {"drills": PastDrills("runs", (rehearsal(3),))}, "ok", "(pass, a rehearsal) of 2", ""),
    ("drill-age", {"drills": PastDrills("runs", (drill("pass", 3),))}, "ok", "(pass) of 2", ""),
    ("drill-age", {"drills": PastDrills("runs", (drill("fail", 1),))}, "warn", "no drill passed", "drlib run"),
    ("drill-age", {"drills": PastDrills("runs", (drill("fail", 1), drill("conditions", 5)))}, "warn", "ended with fail", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "changes", "severity", "evidence", "fix"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_judge_flow_finding_has_severity_evidence_and_fix(
    check: str, changes: dict[str, object], severity: str, evidence: str, fix: str
) -> None:
    finding = finding_of(check, **changes)
    assert finding.severity == severity, finding
    assert evidence in finding.evidence
    assert fix in finding.fix
    lost = (finding.weight * (2 - HALVES[finding.severity]) + 1) // 2
    expected = 100 if check == "source-answers" else 100 - lost  # a lost source is no lack of readiness
    assert judge_flow(observation(**changes), CONTEXT).score == expected


@pytest.mark.parametrize("side", ["source", "target"])
def test_judge_flow_cluster_that_refuses_this_host_is_nowhere_to_be_restored(side: str) -> None:
    """A refused login is no dead cluster: every finding names what is refused or says to correct it."""
    why, fix = f"{CANNOT_USE}: broker h:1 can't be used: it refused the login", "Correct sasl.jaas.config."
    alias, unasked = {"source": "LEFT", "target": "RIGHT"}[side], Unanswered(f"LEFT: {why}", fix)
    status = replace(mirror(answered=0, source_error=why), **{f"{side}_error": why})  # type: ignore[arg-type]
    observed = observation(
        **{side: ClusterAnswer(alias, "h:1", 0, why, fix, refused=True)},
        identities=(ClusterIdentity(alias, "", "a", fix, why),),
        mirror=status,
        readers=unasked,
        topics=unasked,
        settings=unasked,
        retention_ms=unasked,
        producer_ids=ComparedIds(2, 1, as_kept=AsKept(NOW, NOW, f"LEFT: {why}")),
        certificates=AddressCertificates(("h",), {}, (), ((alias, why),)),
    )
    readiness = judge_flow(observed, CONTEXT)
    of_cluster = [f for f in readiness.findings if CANNOT_USE in f.evidence]
    assert {f"{side}-answers", "cluster-ids", "lag", "producer-ids", "address-certificates"} <= {
        f.check for f in of_cluster
    }
    assert all("orrect" in f.fix for f in of_cluster), of_cluster
    assert not [f for f in readiness.findings if "Restore" in f.fix or "does not answer" in f.evidence]
    assert not readiness.source_lost
    assert not readiness.ready(0)
    assert readiness.as_of(NOW + DAY_MS).source_refused is (side == "source")


def test_judge_flow_source_that_refuses_this_host_has_the_gate_of_an_emergency_and_suggests_none() -> None:
    """Whether it is gone is seen elsewhere; a score of the target alone would say that it is."""
    refused = ClusterAnswer("LEFT", "h:1", 0, f"{CANNOT_USE}: wrong password", "Correct it.", refused=True)
    readiness = judge_flow(observation(source=refused), CONTEXT)
    assert (readiness.source_silent, readiness.source_lost, readiness.emergency) == (True, False, ())
    assert readiness.score == 95
    gate_without_source(readiness)
    with pytest.raises(ReadinessError) as closed:
        gate([readiness], 80)
    assert "emergency" not in str(closed.value)
    assert closed.value.remedy == "Correct it."


def test_judge_flow_right_that_is_not_needed_is_advice_and_costs_nothing() -> None:
    advice = (Advice("__transaction_state", "may not READ", "kafka-acls.sh --add"),)
    readiness = judge_flow(observation(advice=advice), CONTEXT)
    assert readiness.score == 100
    assert readiness.severity("rights") is Severity.ADVICE
    (found,) = [each for each in readiness.findings if each.severity is Severity.ADVICE]
    assert (found.check, found.entity, found.fix) == ("rights", "__transaction_state", "kafka-acls.sh --add")
    unasked = judge_flow(observation(advice=Unanswered("no answer within 15 s", "again")), CONTEXT)
    assert (unasked.score, unasked.severity("rights")) == (100, Severity.ADVICE)


def test_cases_cover_a_failure_of_every_check() -> None:
    assert {check for check, _, severity, _, _ in CASES if severity != "ok"} == {check.id for check in CHECKS}


@pytest.mark.parametrize(
    ("drills", "expires_ms"),
    [
        ((drill("pass", 3),), NOW + 27 * DAY_MS),
        ((drill("conditions", 3), drill("pass", 40)), NOW + 27 * DAY_MS),
        ((drill("fail", 1), drill("pass", 3)), NOW + 27 * DAY_MS),
        ((drill("pass", 30),), NOW + HOUR_MS),  # due now: look again in an hour, as where none passed
        ((drill("pass", 40),), NOW + HOUR_MS),
        ((drill("fail", 1),), NOW + HOUR_MS),
    ],
)
def test_drill_age_lasts_until_the_next_drill_is_due(drills: tuple[PastDrill, ...], expires_ms: int) -> None:
    assert finding_of("drill-age", drills=PastDrills("runs", drills)).expires_ms == expires_ms


def test_cluster_without_an_answer_or_an_id_in_the_journal_has_no_id_to_compare() -> None:
    finding = finding_of("cluster-ids", identities=(ClusterIdentity("LEFT", "", ""),))
    assert finding.evidence == "it did not answer"


@pytest.mark.parametrize(
    ("factor", "brokers", "replicas", "evidence"),
    [
        (-1, 3, 1, "1 copy on 3 brokers, 2 required"),  # the cluster's default: two, where it has as many brokers
        (-1, 3, 2, "1 topic, 2 copies or more of each on 3 brokers, all in sync"),
        (-1, 1, 1, "1 topic, 1 copy or more of each on 1 broker, all in sync"),
        (1, 3, 1, "min.insync.replicas is 1 of 1 copies: the loss of one broker stops producers"),
        (2, 3, 1, "1 copy on 3 brokers, 2 required"),
        (3, 2, 2, "1 topic, 2 copies or more of each on 2 brokers, all in sync"),
    ],
)
def test_durability_requires_the_configured_copies_as_far_as_there_are_brokers(
    factor: int, brokers: int, replicas: int, evidence: str
) -> None:
    held = replace(durability(replicas, replicas, minimum=1, brokers=brokers), factor=factor)
    assert finding_of("durability", durability=held).evidence == evidence


@pytest.mark.parametrize(
    ("replicas", "in_sync", "evidence"),
    [((3, 2), (3, 2), "2 copies on 3 brokers, 3 required"), ((3, 3), (3, 2), "2 of 3 copies in sync")],
)
def test_durability_of_a_topic_is_that_of_its_weakest_partition(
    replicas: tuple[int, int], in_sync: tuple[int, int], evidence: str
) -> None:
    held = durability()
    (whole,) = held.topics
    rows = {
        n: replace(whole.partitions[0], replicas=tuple(range(replicas[n])), isr=tuple(range(in_sync[n])))
        for n in range(2)
    }
    held = replace(held, topics=(replace(whole, partitions=rows),))
    assert finding_of("durability", durability=held).evidence == evidence


def test_durability_names_the_fewest_copies_of_all_topics() -> None:
    held = replace(durability(minimum=1), factor=2, topics=(topic("LEFT.orders", 1), topic("LEFT.bills", 1, 2, 2)))
    held = replace(held, settings={**held.settings, "LEFT.bills": held.settings["LEFT.orders"]})
    evidence = finding_of("durability", durability=held).evidence
    assert evidence == "2 topics, 2 copies or more of each on 3 brokers, all in sync"


def test_worker_that_waits_for_a_cluster_is_critical_and_says_for_which() -> None:
    waits = Event("FlowUnreachable", FLOW, "A: it is down", NOW, remedy="Start it.")
    finding = finding_of("worker", mirror=mirror("waiting", members=0, events=(waits,)))
    assert finding.severity is Severity.CRITICAL
    assert finding.evidence == "its worker waits for a cluster: A: it is down"
    assert finding.fix == "Start it."


@pytest.mark.parametrize("check", ["worker", "events", "lag", "retention"])
def test_mirror_checks_with_a_silent_target_rely_on_workers_that_answer(check: str) -> None:
    behind_both = (behind(1, 1.0), behind(2, 2.0))
    answered = replace(mirror(partitions=behind_both), target_error="RIGHT is down")
    assert finding_of(check, mirror=answered).severity is Severity.OK
    finding = finding_of(check, mirror=replace(answered, view=replace(answered.view, workers=())))
    assert finding.severity is Severity.UNKNOWN
    assert "the target does not answer" in finding.evidence
    refused = "describing group g on RIGHT was refused: GROUP_AUTHORIZATION_FAILED"  # so RIGHT answers
    finding = finding_of(check, mirror=replace(answered, target_error=refused, view=replace(answered.view, workers=())))
    assert finding.evidence.endswith(f"is unknown: {refused}")
    assert "does not answer" not in finding.evidence
    assert finding.fix == "Grant the right (drlib doctor FILE --rights), then run drlib doctor again."


def test_commands_for_a_cluster_with_a_login_have_it() -> None:
    context = replace(CONTEXT, command_configs={CONTEXT.target: "admin.properties"})
    begin = "kafka-topics.sh --bootstrap-server right:9092 --command-config admin.properties --alter"
    assert context.tool("kafka-topics", context.target, "--alter") == begin
    assert context.tool("kafka-acls", context.source, "--add") == "kafka-acls.sh --bootstrap-server left:9092 --add"


@pytest.mark.parametrize(
    ("ends", "severity"), [((1, 2), Severity.OK), ((1, None), Severity.UNKNOWN), ((), Severity.UNKNOWN)]
)
def test_lag_with_a_silent_source_is_known_where_every_log_end_is(
    ends: tuple[int | None, ...], severity: Severity
) -> None:
    status = mirror(partitions=tuple(behind(end, 1.0) for end in ends), source_error="LEFT is down")
    finding = finding_of("lag", mirror=status)
    assert finding.severity is severity
    assert ("the source does not answer: the lag is unknown" in finding.evidence) is (severity is Severity.UNKNOWN)


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        (flow_view.MIRRORING, "Wait for it to catch up"),
        (flow_view.STARTING, "Wait for it"),
        ("no worker", "Start a worker"),
    ],
)
def test_lag_is_waited_for_only_where_a_worker_mirrors(state: str, fix: str) -> None:
    furthest = replace(behind(500, 1.0), partition=1)
    finding = finding_of("lag", mirror=mirror(state, partitions=(behind(12, 31.0), furthest)))
    assert "512 records not on the target, the oldest 31 s old, most in orders-1;" in finding.evidence
    assert finding.fix.startswith(fix)
    assert finding.severity is Severity.CRITICAL


def test_events_of_partitions_without_a_map_are_listed_once() -> None:
    unmapped = Event("JournalLost", "orders-0", "its claims are gone", NOW)
    for status in (mirror(), mirror(events=(unmapped,))):
        finding = finding_of("events", mirror=replace(status, unmapped=(unmapped,)))
        assert (finding.entity, finding.severity) == ("orders-0", Severity.CRITICAL)


def test_partitions_topic_that_the_source_does_not_list_is_unknown() -> None:
    finding = finding_of("partitions", topics=replace(topics(2, 2), unlisted=("payments",)))
    assert (finding.entity, finding.severity) == ("payments", Severity.UNKNOWN)
    assert "may not describe it" in finding.evidence


def test_events_mirror_that_could_not_be_read_is_unknown_and_no_contradiction() -> None:
    finding = finding_of(
        "events", mirror=replace(mirror(), unmapped=(Event(UNREAD, "orders-0", "not authorized", NOW),))
    )
    assert (finding.entity, finding.severity) == ("orders-0", Severity.UNKNOWN)


def test_events_unreachable_source_is_reported_by_source_check_only() -> None:
    gone = ClusterAnswer("LEFT", "l", 0, "LEFT is down", "Start it.")
    status = mirror(events=(Event("SourceUnreachable", FLOW, "gone", NOW),))
    assert finding_of("events", source=gone, mirror=status).severity is Severity.OK
    assert finding_of("events", mirror=status).severity is Severity.WARN  # only the worker does not reach it


@pytest.mark.parametrize(("target_epoch", "refused"), [(0, True), (1, False)], ids=["same epoch", "other epoch"])
def test_producer_ids_of_redirected_producers_that_can_lose_records_are_said_to_stop_a_move(
    target_epoch: int, refused: bool
) -> None:
    seen = observation(producer_ids=ComparedIds(1, 1, (collision(0, target_epoch),)))
    (found,) = [f for f in judge_flow(seen, replace(CONTEXT, redirected=True)).findings if f.check == "producer-ids"]
    assert (found.severity, "collide = true" in found.fix) == (Severity.WARN, refused)
    assert "collide" not in finding_of("producer-ids", producer_ids=seen.producer_ids).fix, "they are not redirected"


def test_groups_exact_from_old_checkpoints_expires_from_checkpoint_time() -> None:
    old = (translation(TranslationKind.EXACT, offset=5, as_of_ms=NOW - 120_000),)
    finding = finding_of("groups-exact", translations=old)
    assert (finding.severity, finding.expires_ms) == (Severity.UNKNOWN, NOW - 60_000)


def test_lost_source_evidence_has_the_age_of_its_oldest_part_and_lasts_as_any() -> None:
    old, older = (translation(TranslationKind.EXACT, offset=5, as_of_ms=NOW - n * 60_000) for n in (2, 7))
    groups = finding_of("groups-exact", source=LOST, translations=(old, older))
    assert "as last known 7 min ago" in groups.evidence
    status = mirror(partitions=(behind(1, 1.0, as_of_ms=NOW - 180_000),), source_error="LEFT is down")
    lag = finding_of("lag", source=LOST, mirror=status)
    assert "1 record not on the target" in lag.evidence
    assert "as last known 3 min ago" in lag.evidence
    assert (groups.expires_ms, lag.expires_ms) == tuple(
        NOW + check_of(c).lasts_s * 1000 for c in ("groups-exact", "lag")
    )


def test_lost_source_whose_lag_is_unknown_has_no_age_of_it() -> None:
    status = mirror(partitions=(behind(None, 1.0, as_of_ms=NOW - 180_000),), source_error="LEFT is down")
    assert "as last known" not in finding_of("lag", source=LOST, mirror=status).evidence


def test_lag_that_the_objective_allows_at_least_is_no_failure_for_certain() -> None:
    most = CONTEXT.objectives.rpo_records
    for least, severity in ((most, Severity.WARN), (most + 1, Severity.CRITICAL)):
        status = by_mirror_maker(replace(up_to(most + 5, 1.0, least), outlook=behind(1, None).outlook))
        assert finding_of("lag", mirror=status).severity is severity


def test_producer_ids_written_at_the_epoch_are_old_and_without_a_time_of_unknown_age() -> None:
    seen = replace(collision(), source_ms=0, target_ms=-1)
    finding = finding_of("producer-ids", producer_ids=ComparedIds(1, 1, (seen,)))
    assert "old on the source, of unknown age on the target" in finding.evidence


def test_retention_unknown_record_age_is_unknown_and_so_is_lag() -> None:
    readiness = judge_flow(observation(mirror=mirror(partitions=(behind(1, None),))), CONTEXT)
    (finding,) = [f for f in readiness.findings if f.check == "retention"]
    assert finding.severity is Severity.UNKNOWN
    assert "could not be read" in finding.evidence
    assert "drlib doctor" in finding.fix
    (lag,) = [f for f in readiness.findings if f.check == "lag"]
    assert (lag.severity, "of unknown age" in lag.evidence) == (Severity.UNKNOWN, True)
    assert readiness.score == 100 - finding.weight - lag.weight


@pytest.mark.parametrize(
    ("retention_ms", "severity"), [({"orders": 0}, Severity.UNKNOWN), ({"orders": -1}, Severity.OK), ({}, Severity.OK)]
)
def test_retention_unknown_record_age_matters_where_records_expire_by_age(
    retention_ms: dict[str, int], severity: Severity
) -> None:
    status = mirror(partitions=(behind(1, None),))
    assert finding_of("retention", mirror=status, retention_ms=retention_ms).severity is severity


def test_judge_flow_unanswered_questions_are_unknown_with_reason() -> None:
    lost = Unanswered("no answer within 15 s", "Look at the link.")
    names = ("identities", "obstacles", "mirror", "retention_ms", "heartbeat", "translations", "readers",
             "target_positions", "topics", "settings", "durability", "producer_topics", "producer_ids", "certificates",
             "drills")  # fmt: skip
    nothing = judge_flow(observation(**dict.fromkeys(names, lost), writers=WritersObserved(lost, lost)), CONTEXT)
    assert nothing.score == 13  # that both clusters answer
    unknown = [f for f in nothing.findings if f.severity is Severity.UNKNOWN]
    assert len(unknown) == len(CHECKS) - 2
    assert {(f.evidence, f.fix) for f in unknown} == {("no answer within 15 s", "Look at the link.")}


def test_topic_that_gets_a_prefix_although_names_are_kept_is_a_warning_that_names_its_copy() -> None:
    there = topic("device-heartbeats", 1)
    names, copies = {there.name: f"LEFT.{there.name}"}, {f"LEFT.{there.name}": there}
    found = finding_of("partitions", topics=MirrorTopics(names, {there.name: there}, copies, prefixed=(there.name,)))
    assert found.severity is Severity.WARN
    assert found.entity == there.name
    assert "its copy is LEFT.device-heartbeats" in found.evidence


def nothing_mirrored(**changes: object) -> FlowObservation:
    """What is observed of clusters that answer, with a worker, where `topics` selects nothing."""
    empty = MirrorTopics({}, {}, {}, **changes)  # type: ignore[arg-type]
    nothing = replace(producer_topics(), names=())
    return observation(
        topics=empty, retention_ms={}, translations=(), target_positions=(), settings=(), readers=Readers(0, ()),
        durability=Durability(3, 3, (), {}), producer_topics=nothing,
    )  # fmt: skip


def test_flow_that_mirrors_no_topic_is_not_ready_and_its_checks_prove_nothing() -> None:
    readiness = judge_flow(nothing_mirrored(), CONTEXT)
    assert not readiness.ready(0)
    assert readiness.score == 57
    (finding,) = readiness.critical
    assert finding.check == "partitions"
    assert finding.fix == (
        "Create such a topic, or correct `topics` in mm2.properties: drlib config explain mm2.properties. "
        "Topics that this user may not describe are hidden from it: drlib doctor mm2.properties --rights"
    )
    over_nothing = {f.check for f in readiness.findings if f.evidence == "nothing to check: no topic is mirrored"}
    assert over_nothing == set(OF_TOPICS)
    assert all(readiness.severity(check) is Severity.UNKNOWN for check in OF_TOPICS)


def test_flow_back_that_has_nothing_to_copy_yet_is_no_obstacle_and_says_so() -> None:
    readiness = judge_flow(nothing_mirrored(way_back=True), CONTEXT)
    assert readiness.ready(100)
    said = {f.check: f.evidence for f in readiness.findings}
    assert {said[check] for check in OF_TOPICS} == {"nothing to check: no topic is mirrored yet"}


def test_lost_source_and_no_checkpoint_closes_the_gate_of_an_emergency() -> None:
    seen = observation(mirror=by_mirror_maker(checkpoints=0, source_error="refused"), translations=(), source=LOST)
    readiness = judge_flow(seen, CONTEXT)
    (finding,) = [f for f in readiness.findings if f.check == "groups-exact"]
    assert finding.severity is Severity.CRITICAL
    assert "RIGHT has no checkpoint of MirrorMaker 2, and LEFT does not answer" in finding.evidence
    assert finding in readiness.emergency


def test_applications_that_move_by_hand_are_advice_that_costs_nothing() -> None:
    moves = Application("LEFT", Kind.GROUP, "billing", "", 1, (), (), (), None, Way.EITHER, "how")
    by_hand = replace(moves, name="connect-files", kind=Kind.SINK, way=Way.BY_HAND, how="its cluster has to move")
    elsewhere = replace(by_hand, name="theirs", cluster="RIGHT")
    by_hand = replace(by_hand, members=2, topics=("orders",))
    idle = replace(by_hand, name="idle", members=0)
    unknown = replace(by_hand, name="of another protocol", members=None, topics=())
    others = (elsewhere, idle, unknown, replace(by_hand, name="of another topic", topics=("other",)))
    plain = judge_flow(observation(inventory=Inventory((moves, *others))), CONTEXT)
    advised = judge_flow(observation(inventory=Inventory((moves, by_hand, *others))), CONTEXT)
    assert plain.findings == judge_flow(observation(), CONTEXT).findings
    (advice,) = [f for f in advised.findings if f.entity == "applications"]
    assert (advice.check, advice.severity) == ("groups-exact", Severity.ADVICE)
    assert (
        "1 application of LEFT move by hand: connect-files (Connect sink: its cluster has to move)" in advice.evidence
    )
    assert "drlib inventory FILE" in advice.fix
    assert advised.score == plain.score


def test_inventory_without_an_answer_is_advice_too() -> None:
    judged = judge_flow(observation(inventory=Unanswered("no answer within 5 s")), CONTEXT)
    assert any(f.severity is Severity.ADVICE and "no answer within 5 s" in f.evidence for f in judged.findings)
