"""Faults while a flow runs, on real brokers: named, confined to their partition, resolved with their cause."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import google_crc32c
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from fix_authorizer import acl, add_acls, drop_acls, kafka_acls
from fix_engine import Engine, Record, alter, commit, create_topic, produce, read_all, wait_for
from repository_root import ROOT
from testbed_clock import SHIFT
from testbed_log_files import log_of, patch_batch, rewrite

from drlib.config.settings import load_mirror_settings
from drlib.lab.lab import Lab
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.monitor.survey import Surveyor
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC


def send(bootstrap: str, topic: str, value: bytes, *, key: bytes | None = b"k", timestamp: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.max.bytes": 5_000_000})
    producer.produce(topic, key=key, value=value, partition=0, timestamp=timestamp)
    assert producer.flush(10) == 0


def allow(
    bootstrap: str,
    topic: str,
    *operations: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:
    """Allow every principal only these operations on `topic` from now on; or all but these."""
    add_acls(bootstrap, *(acl(ResourceType.TOPIC, topic, operation, permission) for operation in operations))


@contextmanager
def only_for_now(
    bootstrap: str,
    kind: ResourceType,
    name: str,
    *operations: AclOperation,
    but: AclOperation | None = None,
) -> Iterator[None]:
    """Allow every principal only these operations on shared resources; or those without `but`. Undone at the end."""
    made = [acl(kind, name, operation) for operation in operations]
    made += [acl(kind, name, but, AclPermissionType.DENY)] if but is not None else []
    try:
        add_acls(bootstrap, *made)
        yield
    finally:
        drop_acls(bootstrap, kind, name)


def grant(event_text: str) -> None:
    """Run the command in an event."""
    kafka_acls(shlex.split(event_text[event_text.index("kafka-acls.sh") :])[1:])


def text(event: object) -> str:
    return f"{getattr(event, 'detail', '')} {getattr(event, 'remedy', '')}"


# -- what the target refuses -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_produce_refused_batch_waits_for_topic_config_and_continues(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """Too large, from the future, without a key: three topics park, each naming the config to set; a fourth goes on."""
    large, future, keyless, sound = (fresh_topic(n) for n in ("large", "future", "keyless", "sound"))
    engine.topics = ", ".join((large, future, keyless, sound))
    engine.extra["sync.topic.configs.enabled"] = "false"
    hour = "3600000"
    create_topic(engine.left, large, 1)
    create_topic(engine.left, future, 1, message_timestamp_after_max_ms="9223372036854775807")
    create_topic(engine.left, keyless, 1)
    create_topic(engine.left, sound, 1)
    mirror = {t: f"{engine.source}.{t}" for t in (large, future, keyless, sound)}
    create_topic(engine.right, mirror[large], 1, max_message_bytes="20000")
    create_topic(engine.right, mirror[future], 1, message_timestamp_after_max_ms=hour)
    create_topic(engine.right, mirror[keyless], 1, cleanup_policy="compact")
    for topic in mirror:
        produce(engine.left, topic, 10, partitions=1)
    send(engine.left, large, b"x" * 50_000)
    in_two_hours = int(time.time() * 1000) + 7_200_000
    send(engine.left, future, b"early", timestamp=in_two_hours)
    send(engine.left, keyless, b"nobody's", key=None)
    for topic in mirror:
        produce(engine.left, topic, 100, partitions=1, first=10)
    worker = engine.start()
    engine.wait_caught_up(sound, 1)
    event = {t: text(engine.wait_reported("TargetRefused", f"{t}-0")) for t in (large, future, keyless)}
    assert "max.message.bytes=" in event[large], event
    assert "(code 10)" in event[large], event
    assert "message.timestamp.after.max.ms=" in event[future], event
    assert time.strftime("%Y-%m-%dT%H:%M", time.gmtime(in_two_hours / 1000)) in event[future], event
    assert "key" in event[keyless], event
    for topic in (large, future, keyless):
        assert len(read_all(engine.right, mirror[topic], 1)[0]) <= 11
    alter(engine.right, mirror[large], "max.message.bytes", "1048588")
    alter(engine.right, mirror[future], "message.timestamp.after.max.ms", "9223372036854775807")
    alter(engine.right, mirror[keyless], "cleanup.policy", "delete")
    for topic in (large, future, keyless):
        engine.wait_caught_up(topic, 1)
        engine.wait_reported("TargetRefused", f"{topic}-0", resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    for topic in mirror:
        engine.assert_same(topic, 1)


@pytest.mark.long
def test_mirror_topic_with_log_append_time_is_reported(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["sync.topic.configs.enabled"] = "false"
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, f"{engine.source}.{topic}", 1, message_timestamp_type="LogAppendTime")
    produce(engine.left, topic, 10, partitions=1)
    worker = engine.start()
    assert "CreateTime" in text(engine.wait_reported("TimestampsRewritten", f"{engine.source}.{topic}"))
    alter(engine.right, f"{engine.source}.{topic}", "message.timestamp.type", "CreateTime")
    produce(engine.left, topic, 10, partitions=1)
    engine.wait_reported("TimestampsRewritten", f"{engine.source}.{topic}", resolved=True)
    assert engine.stop(worker) == 0, engine.log()


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_source_topic_unauthorized_waits_alone_for_the_right(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    engine.left = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    closed, open_ = fresh_topic("closed"), fresh_topic("open")
    engine.topics = f"{closed}, {open_}"
    for topic in (closed, open_):
        create_topic(engine.left, topic, 1)
        produce(engine.left, topic, 50, partitions=1)
    allow(engine.left, closed, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    worker = engine.start()
    engine.wait_caught_up(open_, 1)
    command = text(engine.wait_reported("SourceUnauthorized", closed))
    assert "--allow-principal User:ANONYMOUS --operation Read --topic" in command
    grant(command)
    engine.wait_caught_up(closed, 1)
    engine.wait_reported("SourceUnauthorized", closed, resolved=True)
    allow(engine.left, closed, AclOperation.DESCRIBE, permission=AclPermissionType.DENY)
    command = text(engine.wait_reported("SourceTopicForbidden", closed))
    assert "--operation Describe --topic" in command
    admin = AdminClient({"bootstrap.servers": engine.left, "log_level": 0})
    denied = AclBindingFilter(
        ResourceType.TOPIC,
        closed,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.DENY,
    )
    for future in admin.delete_acls([denied]).values():
        future.result(10)
    engine.wait_reported("SourceTopicForbidden", closed, resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(closed, 1)


@pytest.mark.long
def test_mirror_topic_unauthorized_waits_alone_for_the_right(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    engine.right = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    closed, open_ = fresh_topic("closed"), fresh_topic("open")
    engine.topics = f"{closed}, {open_}"
    for topic in (closed, open_):
        create_topic(engine.left, topic, 1)
        produce(engine.left, topic, 50, partitions=1)
    create_topic(engine.right, f"{engine.source}.{closed}", 1)
    allow(engine.right, f"{engine.source}.{closed}", AclOperation.DESCRIBE)
    transactional_ids = AclBinding(  # another principal's from now on
        ResourceType.TRANSACTIONAL_ID,
        f"drlib.{engine.source}.",
        ResourcePatternType.PREFIXED,
        "User:else",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    for future in admin.create_acls([transactional_ids]).values():
        future.result(10)
    worker = engine.start()
    flow = f"{engine.source}->{engine.target}"
    command = text(engine.wait_reported("LaneUnauthorized", flow))
    assert "--operation Write --transactional-id" in command
    grant(command)
    engine.wait_caught_up(open_, 1)
    engine.wait_reported("LaneUnauthorized", flow, resolved=True)
    command = text(engine.wait_reported("TargetUnauthorized", f"{engine.source}.{closed}"))
    assert "--operation Write --operation Read --topic" in command
    grant(command)
    engine.wait_caught_up(closed, 1)
    engine.wait_reported("TargetUnauthorized", f"{engine.source}.{closed}", resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(closed, 1)


@pytest.mark.long
def test_source_missing_describe_rights_are_reported_and_mirroring_continues(
    engine: Engine, authorizer_lab: Lab
) -> None:
    """The config of a topic, retention among it, and the topic with the groups' committed offsets."""
    engine.left = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    topic, flow = engine.topics, f"{engine.source}->{engine.target}"
    group = f"group-of-{topic}"
    other = f"{topic}-other"
    engine.topics = f"{topic}, {other}"
    create_topic(engine.left, other, 1, retention_ms="3600000")
    produce(engine.left, other, 10, partitions=1)
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, f"{engine.source}.{topic}", 1)  # which takes the settings of its source to be made
    produce(engine.left, topic, 50, partitions=1)
    commit(engine.left, group, topic, 10)
    allow(engine.left, topic, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)
    settings = load_mirror_settings(engine.properties)
    seen = asyncio.run(Surveyor(settings, settings.flow(engine.source, engine.target)).survey())
    assert seen.source_error == ""  # a topic whose settings may not be read affects no other topic
    assert {p.topic: p.outlook.left_s is not None for p in seen.partitions} == {topic: False, other: True}
    with only_for_now(engine.left, ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.DESCRIBE):
        worker = engine.start()
        assert f"describing topic configurations of {topic}" in text(engine.wait_reported("WatchFailed", flow))
        event_text = text(engine.wait_reported("GroupTailUnavailable", flow))
        assert f"following {OFFSETS_TOPIC}" in event_text
        assert f"Read and Describe on the topic {OFFSETS_TOPIC}" in event_text
        engine.wait_caught_up(topic, 1)
        commit(engine.left, group, topic, 30)  # it may not be followed, so it is polled
        wait_for("the position is translated", lambda: checkpointed(engine, group) == 30)
        assert engine.reported("GroupTailUnavailable", flow)
        allow(engine.left, OFFSETS_TOPIC, AclOperation.READ)
        engine.wait_reported("GroupTailUnavailable", flow, resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)


def checkpointed(engine: Engine, group: str) -> int | None:
    """The group's newest checkpoint on the target."""
    found = read_all(engine.right, f"{engine.source}.checkpoints.internal", 1)[0]
    reported = [Checkpoint.decode(key, value) for key, value, _, _ in found if key is not None and value is not None]
    return max((c.upstream_offset for c in reported if c.group == group), default=None)


@pytest.mark.long
def test_broker_config_unreadable_is_reported_and_defaults_assumed(engine: Engine, authorizer_lab: Lab) -> None:
    engine.right = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 50, partitions=1)
    with only_for_now(
        engine.right, ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, but=AclOperation.DESCRIBE_CONFIGS
    ):
        worker = engine.start()
        event_text = text(engine.wait_reported("BrokerConfigUnknown", engine.target))
        engine.wait_caught_up(engine.topics, 1)
    assert "CLUSTER_AUTHORIZATION_FAILED" in event_text
    assert "Kafka's defaults are assumed" in event_text
    assert "DescribeConfigs" in event_text
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(engine.topics, 1)
    engine.start()  # and once it may
    engine.wait_caught_up(engine.topics, 1)
    assert not engine.reported("BrokerConfigUnknown", engine.target)


# -- a damaged or rewound source ---------------------------------------------------------------------------------------


def flip_a_bit(batch: bytearray) -> None:
    batch[-3] ^= 0x10


def lengthen(batch: bytearray) -> None:
    struct.pack_into(">i", batch, 8, struct.unpack_from(">i", batch, 8)[0] + 5_000_000)


def garble_under_a_valid_checksum(batch: bytearray) -> None:
    """A batch with a gap, so that it must be decoded, and records that cannot be decoded."""
    batch[61:] = bytes([0x7F]) * (len(batch) - 61)
    struct.pack_into(">i", batch, 57, struct.unpack_from(">i", batch, 57)[0] - 1)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))


@pytest.mark.long
def test_corrupt_source_batch_is_never_forwarded_but_those_before_are(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    """A flipped bit, a length beyond the rest of the log, garbage under a valid checksum."""
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.left = cluster.bootstrap
    damage = {fresh_topic("flipped"): flip_a_bit, fresh_topic("length"): lengthen}
    damage[fresh_topic("garbage")] = garble_under_a_valid_checksum
    sound = fresh_topic("sound")
    engine.topics = ", ".join([*damage, sound])
    for topic in (*damage, sound):
        create_topic(engine.left, topic, 1)
        for first in range(0, 50, 10):  # five batches of ten
            produce(engine.left, topic, 10, partitions=1, first=first)
    originals = {topic: log_of(authorizer_lab, "AUTHORIZED", topic).read_bytes() for topic in damage}
    cluster.stop()
    lengthened = next(t for t, change in damage.items() if change is lengthen)
    for topic in damage.keys() - {lengthened}:
        patch_batch(log_of(authorizer_lab, "AUTHORIZED", topic), 3, damage[topic])
    cluster.restart()
    # After it: a broker that starts takes a length beyond the file's end for the end of its log.
    patch_batch(log_of(authorizer_lab, "AUTHORIZED", lengthened), 3, lengthen)
    worker = engine.start()
    engine.wait_caught_up(sound, 1)
    for topic in damage:
        # Of a length that swallows what follows a broker itself makes nothing: it gives no byte from there on.
        name = "SourceStalled" if topic == lengthened else "SourceCorrupt"
        event = engine.wait_reported(name, f"{topic}-0")
        assert "kafka-dump-log" in text(event), event
        there = read_all(engine.right, f"{engine.source}.{topic}", 1)[0]
        assert [r[2] for r in there] == [(("n", str(n).encode()),) for n in range(30)]
    produce(engine.left, sound, 10, partitions=1, first=50)
    engine.wait_caught_up(sound, 1)
    for topic, original in originals.items():  # the damage is repaired, without a restart
        rewrite(log_of(authorizer_lab, "AUTHORIZED", topic), original)
        engine.wait_caught_up(topic, 1)
        engine.assert_same(topic, 1)
    assert engine.stop(worker) == 0, engine.log()


def copied_disks(lab: Lab, backup: Path) -> Callable[[], None]:
    """Copy what the broker of AUTHORIZED has on disk, while it does not run; the result puts the copy back."""
    cluster, data = lab.clusters["AUTHORIZED"], lab.root / "AUTHORIZED-1" / "data"
    cluster.stop()
    shutil.copytree(data, backup)
    cluster.restart()

    def put_back() -> None:
        cluster.stop()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        cluster.restart()

    return put_back


@pytest.mark.long
def test_source_restored_from_old_backup_is_parked_for_good(
    engine: Engine, authorizer_lab: Lab, tmp_path: Path
) -> None:
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.left = cluster.bootstrap
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    put_back = copied_disks(authorizer_lab, tmp_path / "backup")
    produce(engine.left, topic, 50, partitions=1, first=100)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    put_back()
    event_text = text(engine.wait_reported("SourceTruncated", f"{topic}-0"))
    assert "100" in event_text
    assert re.search("149|position 150", event_text)  # by leader epoch, or by offset
    produce(engine.left, topic, 200, partitions=1, first=1000)  # its log grows beyond what was mirrored
    assert engine.stop(worker) == 0, engine.log()
    engine.start()
    engine.wait_reported("SourceTruncated", f"{topic}-0")
    there = read_all(engine.right, f"{engine.source}.{topic}", 1)[0]
    assert [r[2] for r in there] == [(("n", str(n).encode()),) for n in range(150)]


@pytest.mark.parametrize("others", [2, 50])
def test_source_that_went_back_and_grew_while_no_worker_ran_is_parked_from_its_first_other_record(
    engine: Engine, authorizer_lab: Lab, tmp_path: Path, others: int
) -> None:
    """Its log is shorter or longer than what was mirrored, and the leader epoch the same: only the records are others."""
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.left = cluster.bootstrap
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    put_back = copied_disks(authorizer_lab, tmp_path / "backup")
    produce(engine.left, topic, 5, partitions=1, first=100)
    engine.mirror_now(topic)
    put_back()
    produce(engine.left, topic, others, partitions=1, first=1000)
    worker = engine.start()
    event = text(engine.wait_reported("SourceTruncated", f"{topic}-0"))
    assert "offsets 100 to 104 were mirrored" in event
    assert f"drlib remirror FILE {topic}" in event
    settings = load_mirror_settings(engine.properties)
    seen = asyncio.run(Surveyor(settings, settings.flow(engine.source, engine.target)).survey())
    assert [p.lag for p in seen.partitions] == [others], "what was written since is not on the target"
    there = read_all(engine.right, mirror, 1)[0]
    assert [r[2] for r in there] == [(("n", str(n).encode()),) for n in range(105)]
    assert engine.stop(worker) == 0, engine.log()


# -- the target --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_target_not_answering_is_reported_in_seconds_and_nothing_is_lost(engine: Engine, lab: Lab) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 2)
    produce(engine.left, topic, 500, partitions=2)
    worker = engine.start()
    engine.wait_caught_up(topic, 2)
    right = lab.clusters["RIGHT"]
    right.pause()
    try:
        began = time.monotonic()
        produce(engine.left, topic, 500, partitions=2, first=500)
        engine.wait_reported("TargetSlow", engine.target, deadline_s=15)
        took = time.monotonic() - began
    finally:
        right.resume()
    assert took < 10, took
    engine.wait_reported("TargetSlow", engine.target, resolved=True)
    engine.wait_caught_up(topic, 2)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 2)


@pytest.mark.long
def test_source_not_answering_is_reported_in_seconds_and_nothing_is_lost(engine: Engine, lab: Lab) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 2)
    produce(engine.left, topic, 500, partitions=2)
    worker = engine.start()
    engine.wait_caught_up(topic, 2)
    left = lab.clusters["LEFT"]
    left.pause()
    try:
        began = time.monotonic()
        engine.wait_reported("SourceSlow", engine.source, deadline_s=15)
        took = time.monotonic() - began
    finally:
        left.resume()
    assert took < 10, took
    engine.wait_reported("SourceSlow", engine.source, resolved=True)
    produce(engine.left, topic, 500, partitions=2, first=500)
    engine.wait_caught_up(topic, 2)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 2)


@pytest.mark.long
def test_lane_with_corrupt_journal_fails_and_others_continue(engine: Engine, fresh_topic: Callable[..., str]) -> None:
    old, new = fresh_topic("old"), fresh_topic("new")
    engine.topics = f"{old}, {new}"
    engine.extra["drlib.lanes"] = "2"
    create_topic(engine.left, old, 8)
    produce(engine.left, old, 80, partitions=8)
    worker = engine.start()
    engine.wait_caught_up(old, 8)
    stranger = Producer({"bootstrap.servers": engine.right, "log_level": 0})
    journal = f"__drlib-journal.{engine.source}.internal"
    stranger.produce(journal, key=b"not ours", value=b"nor this", partition=1)
    assert stranger.flush(10) == 0
    create_topic(engine.left, new, 8)
    produce(engine.left, new, 80, partitions=8)
    assert engine.stop(worker) == 0, engine.log()  # a running claim has read its journal, and new topics join it
    worker = engine.start()
    event_text = text(engine.wait_reported("LaneFailed", f"{engine.source}->{engine.target} lane 1"))
    assert "journal holds an entry that cannot be read" in event_text
    assert "Restart this worker" in event_text
    of_lane_0 = [n for n in range(8) if lane_of(new, n, 2) == 0]
    assert 0 < len(of_lane_0) < 8
    wait_for("the other lane goes on", lambda: all(len(r) == 10 for r in some(engine, new, of_lane_0)))
    stranger.produce(journal, key=b"not ours", value=None, partition=1)  # its writer deletes it again
    assert stranger.flush(10) == 0
    assert engine.stop(worker) == 0, engine.log()
    worker = engine.start()
    for topic in (old, new):
        engine.wait_caught_up(topic, 8)
    assert not engine.reported("LaneFailed", f"{engine.source}->{engine.target} lane 1")
    assert engine.stop(worker) == 0, engine.log()
    for topic in (old, new):
        engine.assert_same(topic, 8)


def some(engine: Engine, topic: str, partitions: list[int]) -> list[list[Record]]:
    """The records of `topic`'s mirror in these partitions."""
    found = read_all(engine.right, f"{engine.source}.{topic}", 8)
    return [found[number] for number in partitions]


def test_journal_lost_is_not_a_new_flow(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["refresh.topics.interval.seconds"] = "600"  # as by default
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    journal = f"__drlib-journal.{engine.source}.internal"
    admin.delete_topics([journal])[journal].result(10)
    wait_for("the journal is gone", lambda: journal not in admin.list_topics(timeout=5).topics)
    worker = engine.start()
    event_text = text(engine.wait_reported("JournalLost", f"{engine.source}.{topic}"))
    assert f"Delete {engine.source}.{topic}" in event_text
    produce(engine.left, topic, 10, partitions=1, first=100)
    assert engine.stop(worker) == 0, engine.log()
    worker = engine.start()
    engine.wait_reported("JournalLost", f"{engine.source}.{topic}")
    assert len(read_all(engine.right, f"{engine.source}.{topic}", 1)[0]) == 100
    admin.delete_topics([f"{engine.source}.{topic}"])[f"{engine.source}.{topic}"].result(10)  # as the remedy says
    engine.wait_caught_up(topic, 1)
    engine.assert_same(topic, 1)
    assert engine.stop(worker) == 0, engine.log()


def test_clock_skew_of_an_hour_is_measured(engine: Engine, tmp_path: Path) -> None:
    """The worker's own clock is moved, which equals moving both clusters' clocks."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(
        "import time\n_true = time.time\ntime.time = lambda: _true() + 3600\n"
    )
    import os

    create_topic(engine.left, engine.topics, 1)
    path = os.pathsep.join([str(tmp_path / "clock"), *filter(None, [os.environ.get("PYTHONPATH")])])
    worker = engine.start(environment={"PYTHONPATH": path})
    for alias in (engine.source, engine.target):
        event_text = text(engine.wait_reported("ClockSkew", alias))
        assert "s behind this machine's" in event_text
        seconds = float(event_text.split(" s behind")[0].rsplit(" ", 1)[1])
        assert 3590 < seconds < 3610, event_text
    assert engine.stop(worker) == 0, engine.log()


# -- this machine's clock ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("shift_s", [7200, -7200])
def test_worker_whose_clock_is_wrong_mirrors_and_reports_it(engine: Engine, tmp_path: Path, shift_s: int) -> None:
    """Set while it runs, and wrong when it starts: no broker refuses its entries for their time."""
    topic, shift = engine.topics, tmp_path / "shift"
    (tmp_path / "sitecustomize.py").write_text(SHIFT)
    shift.write_text("0")
    python_path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", str(ROOT))])
    environment = {"PYTHONPATH": python_path, "SHIFT_FILE": str(shift)}
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start(environment=environment)
    engine.wait_caught_up(topic, 1)
    for limit in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        alter(engine.right, f"__drlib-journal.{engine.source}.internal", limit, "3600000")
    new = tmp_path / "shift.new"
    new.write_text(str(shift_s))
    new.replace(shift)
    produce(engine.left, topic, 50, partitions=1, first=50)
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    worker = engine.start(environment=environment)
    engine.wait_reported("ClockSkew", engine.target)
    produce(engine.left, topic, 50, partitions=1, first=100)
    engine.wait_caught_up(topic, 1)
    assert not [e for e in engine.events() if e.name in ("LaneFault", "LaneFailed", "TargetRefused")]
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)
