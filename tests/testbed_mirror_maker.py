"""Clusters paris and lyon with the real MirrorMaker 2 between them, and `drlib` as a command beside it.

Records are numbered by their header `n`, so that what a group reads can be compared with what was written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from fix_engine import latest_offsets, wait_for
from testbed_mm2 import connect_keys

from drlib.config.settings import load_mirror_settings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
GROUP, TOPIC, PARTITIONS = "billing", "orders", 2
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_LOADING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,
)


@dataclass
class Night:
    """paris and lyon, and a MirrorMaker 2 between them that writes no checkpoint unless that is configured."""

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
        return self.written("mm2.properties")

    def written(self, name: str, more: Mapping[str, str] | None = None) -> Path:
        """A properties file of that name in the folder, with `more` keys."""
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
            **(more or {}),
        }
        path = self.root / name
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        return path

    def copied(self, records: int) -> Callable[[], bool]:
        admin = AdminClient({"bootstrap.servers": self.lyon, "log_level": 0})

        def there() -> bool:
            if self.mirror not in admin.list_topics(timeout=10).topics:
                return False
            return sum((latest_offsets(self.lyon, self.mirror, PARTITIONS) or {}).values()) >= records

        return there

    def checkpointed(self, positions: Mapping[int, int]) -> Callable[[], bool]:
        """Whether there are checkpoints of the group for these positions."""
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


def commit_at(bootstrap: str, positions: Mapping[int, int], group: str = GROUP, topic: str = TOPIC) -> None:
    """Once the coordinator takes it: a broker that has just started loads it first."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    offsets = [TopicPartition(topic, number, at) for number, at in positions.items()]

    def committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _LOADING:
                raise
            return False
        return True

    try:
        wait_for("the positions are committed", committed, 30)
    finally:
        consumer.close()


def read_on(night: Night, bootstrap: str = "", topic: str = "") -> dict[int, list[int]]:
    """What the group reads on lyon, in the mirror, from where it was put, to the end: numbers of records by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap or night.lyon,
            "group.id": GROUP,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic or night.mirror])
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
