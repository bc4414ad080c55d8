"""Traffic for a lag analysis on a lab: live records, a mirror that is stopped for a while, and a group that reads them.

Rules: records are written at a steady rate, because lag is about time; one partition gets more than half of them. The mirror is
a worker of its own that is stopped and started again; everything is mirrored before it is read. The group is a real consumer
that commits; a slow one reads less than is written, and a retention of an hour will reach it. Running it again on the same
lab adds to what is there.
Not for: clusters that are not a lab.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer

from drlib.analysis.sessions.analysed_flow import AnalysedFlow, attach_lab, lab_flow
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import LabMirrors
from drlib.lab.workload.topics import TopicSpec, create_topics, log_ends
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

TOPIC: Final = TopicSpec("readings", 4, {"retention.ms": "3600000"})
GROUP: Final = "dashboards"
RATE: Final = 400  # records per second
SLOW_RATE: Final = 150  # records per second that a slow group reads
HEALTHY_S: Final = 8.0
STOPPED_S: Final = 8.0
RESTARTED_S: Final = 5.0
VALUE: Final = b"x" * 200
HOT: Final = (0, 0, 0, 0, 0, 0, 1, 1, 2, 3)  # six of ten records to partition 0
_COMMIT_S: Final = 1.0
_POLL_S: Final = 0.05
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class LagPractice:
    """Traffic of `flow` on `lab`; `slow`: does the group fall behind?"""

    lab: Lab
    flow: Flow
    slow: bool = True

    @property
    def mirrors(self) -> LabMirrors:
        return LabMirrors(self.lab, "lag-mirror", TOPIC.name, (self.flow,), positions=True, lanes=2)

    @property
    def properties(self) -> Path:
        return self.mirrors.properties

    def run(self) -> None:
        """About half a minute. Raises `Unreachable` when the lab does not keep up."""
        source = self.lab.clusters[self.flow.source]
        abort = Abort(self.lab.root)
        create_topics(source.settings(), [TOPIC])
        producer = Producer({**librdkafka(source.settings()), "linger.ms": 5, "log_level": 0})
        consumer = Consumer(
            {
                **librdkafka(source.settings()),
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe([TOPIC.name])
            self.mirrors.start(abort)
            self._live(abort, producer, consumer, HEALTHY_S)
            self.mirrors.stop()
            self._live(abort, producer, consumer, STOPPED_S)
            self.mirrors.start(abort)
            self._live(abort, producer, consumer, RESTARTED_S)
            if not self.slow:
                wait_on_lab(
                    abort, f"{GROUP} has read all", lambda: self._read_all(consumer), _PATIENCE_S, self.lab.root
                )
        finally:
            consumer.close()
        ends = self._ends()
        wait_on_lab(
            abort, "everything is mirrored", lambda: self.mirrors.crossed(self.flow, ends), _PATIENCE_S, self.lab.root
        )
        self.mirrors.stop()

    def _live(self, abort: Abort, producer: Producer, consumer: Consumer, seconds: float) -> None:
        began = committed = time.monotonic()
        written = read = 0
        while (now := time.monotonic()) < began + seconds:
            while written < (now - began) * RATE:
                producer.produce(TOPIC.name, value=VALUE, partition=HOT[written % len(HOT)])
                written += 1
            producer.poll(0)
            allowed = int((now - began) * SLOW_RATE) - read if self.slow else 1000
            if allowed > 0:
                read += len(consumer.consume(allowed, timeout=_POLL_S))
            if read and now - committed > _COMMIT_S:
                consumer.commit(asynchronous=False)
                committed = now
            abort.wait(_POLL_S)
        producer.flush(_PATIENCE_S)
        if read:
            consumer.commit(asynchronous=False)

    def _read_all(self, consumer: Consumer) -> bool:
        ends = self._ends()
        if consumer.consume(5000, timeout=_POLL_S):
            consumer.commit(asynchronous=False)
        with Cluster(self.lab.clusters[self.flow.source].settings()) as cluster:
            positions = cluster.group_offsets(GROUP)
        return all(positions[p].offset >= end if p in positions else not end for p, end in ends.items())

    def _ends(self) -> dict[TopicPartition, int]:
        return log_ends(self.lab.clusters[self.flow.source], [TOPIC.name])


def prepare_lag_practice(lab_dir: str, flow: str, *, slow: bool = True) -> AnalysedFlow:
    """The lab in `lab_dir`, started if it is not running, after this traffic. Raises `UsageError` for a flow it lacks."""
    with ExitStack() as undo:
        lab, wanted = attach_lab(lab_dir, flow, undo)
        practice = LagPractice(lab, wanted, slow)
        practice.run()
        return lab_flow(lab, wanted, practice.properties, undo)
