"""Flows that the real MirrorMaker 2 mirrors: seen, rehearsed, and failed over when it is killed together with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from fix_engine import create_topic, latest_offsets, produce, read_all, wait_for
from repository_root import ROOT
from testbed_mm2 import connect_keys

from bench.mirror_maker import MirrorMaker2
from drlib import publish_pointer
from drlib.config.settings import load_mirror_settings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow

pytestmark = [pytest.mark.mm2, pytest.mark.long, pytest.mark.timeout(600)]

FLOW = Flow("paris", "lyon")
GROUP, TOPIC, PARTITIONS = "billing", "orders", 2
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@dataclass
class Night:
    """paris and lyon, and a MirrorMaker 2 between them that writes no checkpoint unless it is told to."""

    root: Path
    lab: Lab
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def paris(self) -> str:
        return self.lab.clusters["paris"].bootstrap

    @property
    def lyon(self) -> str:
        return self.lab.clusters["lyon"].bootstrap

    @property
    def mirror(self) -> str:
        return TOPIC if "replication.policy.class" in self.keys else f"paris.{TOPIC}"

    @property
    def file(self) -> Path:
        keys = {
            "clusters": "paris, lyon",
            "paris.bootstrap.servers": self.paris,
            "lyon.bootstrap.servers": self.lyon,
            "paris->lyon.enabled": "true",
            "paris->lyon.topics": TOPIC,
            "lyon->paris.enabled": "false",
            "groups": f"{GROUP}.*",
            **dict.fromkeys(
                ("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor"),
                "1",
            ),
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "lyon.offset.flush.interval.ms": "600000",
            **connect_keys("paris", "lyon"),
            **self.keys,
        }
        path = self.root / "mm2.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        return path

    def copied(self, records: int) -> Callable[[], bool]:
        admin = AdminClient({"bootstrap.servers": self.lyon, "log_level": 0})

        def there() -> bool:
            if self.mirror not in admin.list_topics(timeout=10).topics:
                return False
            return sum((latest_offsets(admin, self.mirror, PARTITIONS) or {}).values()) >= records

        return there

    def checkpointed(self, positions: Mapping[int, int]) -> Callable[[], bool]:
        """Whether the checkpoints have these positions of the group, or the translation that MirrorMaker 2 makes of them."""
        settings = load_mirror_settings(self.root / "mm2.properties")

        def there() -> bool:
            known = checkpointed_positions(settings, FLOW)
            return {at.partition for group, at in known if group == GROUP} == set(positions)

        return there

    def drlib(self, command: str, *arguments: object, code: int) -> str:
        argv = [sys.executable, "-m", "drlib.cli", command, *map(str, arguments)]
        done = subprocess.run(argv, cwd=self.root, capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == code, done.stdout[-6000:] + done.stderr[-6000:]
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def scorecard(self) -> dict[str, object]:
        (run,) = [path for path in (self.root / "runs").iterdir() if "emergency" in path.name]
        card = json.loads((run / "scorecard.json").read_text())
        assert isinstance(card, dict)
        return card


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Lab(tmp_path / "lab", ("paris", "lyon")) as lab:
        yield Night(tmp_path, lab)


def commit_at(bootstrap: str, positions: Mapping[int, int], group: str = GROUP) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        offsets = [TopicPartition(TOPIC, number, at) for number, at in positions.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()


def read_on(night: Night) -> dict[int, list[int]]:
    """What the group reads on lyon from where it was put, to the end: numbers of records by partition."""
    consumer = Consumer(
        {"bootstrap.servers": night.lyon, "group.id": GROUP, "auto.offset.reset": "error", "enable.auto.commit": False,
         "enable.partition.eof": True, "log_level": 0}
    )  # fmt: skip
    consumer.subscribe([night.mirror])
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    ended: set[int] = set()

    def step() -> bool:
        for message in consumer.consume(500, 0.2):
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append(int(dict(message.headers() or ())["n"]))
        return len(ended) == PARTITIONS

    try:
        wait_for("the group has read its partitions to their ends", step)
    finally:
        consumer.close()
    return found


def assert_nothing_skipped(night: Night, positions: Mapping[int, int], read: Mapping[int, list[int]]) -> int:
    """Each record behind the group's position that is on the mirror was read; how many before it were read again."""
    again = 0
    for number, records in read_all(night.lyon, night.mirror, PARTITIONS).items():
        there = {int(dict(headers)["n"]) for _, _, headers, _ in records}
        behind = {n for n in there if n // PARTITIONS >= positions[number]}
        assert behind <= set(read[number]), sorted(behind - set(read[number]))[:5]
        again += sum(n // PARTITIONS < positions[number] for n in read[number])
    return again


def predicted(card: Mapping[str, object]) -> int:
    groups = card["groups"]
    assert isinstance(groups, list)
    (group,) = groups
    assert group["group"] == GROUP
    at_most = group["re_read_at_most"]
    assert isinstance(at_most, int)
    return at_most


def test_flow_of_mirror_maker_is_seen_rehearsed_and_failed_over(night: Night) -> None:
    """Its defaults: offset syncs on the source, which dies with it, so that positions are those of the checkpoints."""
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 3000, partitions=PARTITIONS)
    positions = {0: 1234, 1: 1490}
    commit_at(night.paris, positions)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(3000), 90)
    wait_for("the group has checkpoints", night.checkpointed(positions), 60)
    publish_pointer(night.file, "paris")

    seen = json.loads(night.drlib("status", night.file, "--groups", "--json", code=0))
    (view,) = seen
    assert view["state"] == "mirrored by MirrorMaker 2"
    assert view["lag_at_least"] == 0
    assert 0 <= view["lag"] <= 300
    (group,) = view["groups"]
    assert (group["group"], group["partitions"], group["read_again"] <= 200) == (GROUP, 2, True)
    doctor = " ".join(night.drlib("doctor", night.file, code=0).split())
    assert "mirrored by MirrorMaker 2: its last heartbeat is" in doctor
    assert "taken over by drlib mirror" in doctor
    night.drlib("run", ROOT / "runbooks/rehearse-failover.yaml", night.file, "--runs-dir", night.root / "runs", code=0)
    (run,) = (night.root / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    (group,) = card["groups"]
    assert 0 < group["re_read"] <= group["re_read_at_most"] <= 200
    assert card["verdict"] == "pass", card["checks"]

    maker.kill()
    produce(night.paris, TOPIC, 200, partitions=PARTITIONS, first=3000)  # never mirrored
    night.lab.clusters["paris"].kill()
    seen = json.loads(night.drlib("status", night.file, "--groups", "--json", code=3))
    assert seen[0]["lag"] is None
    assert "does not keep where the logs ended" in seen[0]["loses_at_most"]
    assert seen[0]["emergency_gate"] == "open"
    said = night.drlib("failover", night.file, "--yes", "lyon", "--runs-dir", night.root / "runs", code=7)
    assert "UNKNOWN_TOPIC_OR_PARTITION" not in said
    again = assert_nothing_skipped(night, positions, read_on(night))
    assert again <= predicted(night.scorecard())


def test_failover_with_syncs_on_the_target_stale_checkpoints_and_records_copied_twice_skips_nothing(
    night: Night,
) -> None:
    """Names are kept; MirrorMaker 2 was killed and copied records again; the group read on after its last checkpoint."""
    night.keys |= {
        "replication.policy.class": IDENTITY,
        "offset-syncs.topic.location": "target",
        "offset.lag.max": "50",
        # A topic of heartbeats that appears restarts the tasks, which commits their offsets: nothing would be copied again.
        "heartbeats.replication.enabled": "false",
    }
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 2000, partitions=PARTITIONS)
    early = {0: 310, 1: 422}
    commit_at(night.paris, early)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(2000), 90)
    wait_for("the group has checkpoints", night.checkpointed(early), 60)
    maker.kill()
    produce(night.paris, TOPIC, 600, partitions=PARTITIONS, first=2000)
    maker.start()
    wait_for("all records are copied, the first ones twice", night.copied(4600), 120)
    maker.kill()
    late = {0: 1111, 1: 1299}
    commit_at(night.paris, late)
    publish_pointer(night.file, "paris")
    translated = json.loads(night.drlib("translate", night.file, "--flow", str(FLOW), "--json", code=0))
    mirror = read_all(night.lyon, night.mirror, PARTITIONS)
    for row in translated:  # while paris answers, by its own positions
        number, offset = row["partition"], row["offset"]
        assert row["position"] == late[number]
        behind = {int(dict(headers)["n"]) for _, _, headers, _ in mirror[number][offset:]}
        assert {n for n in range(number, 2600, PARTITIONS) if n // PARTITIONS >= late[number]} <= behind
        assert (
            sum(int(dict(h)["n"]) // PARTITIONS < late[number] for _, _, h, _ in mirror[number][offset:])
            <= row["records"]
        )
    night.lab.clusters["paris"].kill()
    night.drlib("failover", night.file, "--yes", "lyon", "--runs-dir", night.root / "runs", code=7)
    again = assert_nothing_skipped(night, late, read_on(night))
    assert 0 < again <= predicted(night.scorecard())


def test_failover_without_checkpoints_is_advised_against_and_moves_the_applications_when_forced(night: Night) -> None:
    night.keys |= {"emit.checkpoints.enabled": "false", "offset-syncs.topic.location": "target"}
    create_topic(night.paris, TOPIC, PARTITIONS)
    produce(night.paris, TOPIC, 1000, partitions=PARTITIONS)
    positions = {0: 333, 1: 20}
    commit_at(night.paris, positions)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(1000), 90)
    publish_pointer(night.file, "paris")
    (view,) = json.loads(night.drlib("status", night.file, "--groups", "--json", code=0))
    (group,) = view["groups"]
    assert (group["group"], group["partitions"], group["read_again"] <= 200) == (GROUP, 2, True)
    assert "no position of any group would be known" in " ".join(night.drlib("doctor", night.file, code=0).split())
    maker.kill()
    night.lab.clusters["paris"].kill()
    runs = ("--runs-dir", night.root / "runs")
    said = " ".join(night.drlib("failover", night.file, "--yes", "lyon", *runs, code=3).split())
    assert "no position of any group is known" in said
    reason = ("--force-reason", "producers first")
    night.drlib("failover", night.file, "--yes", "lyon", *reason, *runs, code=7)
    card = night.scorecard()
    assert card["groups"] == []
    checks = card["checks"]
    assert isinstance(checks, list)
    assert any("no position of any group was known" in check["evidence"] for check in checks)
