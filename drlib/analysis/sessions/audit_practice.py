"""What an analysis looks at on a lab: a little traffic, mirrored, and on demand duplicates planted in it.

Rules: everything is written once; a lab that has these topics already is looked at as it is. What is planted is known in
number, so that a search can be checked against it: a stretch written twice by a producer, one copied twice onto the target,
and a group that goes on at the target behind where it was. The mirror is stopped before anything is looked at.
Not for: clusters that are no lab.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from drlib.analysis.audit.checkpoints import read_checkpoints
from drlib.analysis.duplicates.result import Cause
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, Range, Record
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import POLICY, LabMirrors
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_for

ORDERS: Final = TopicSpec("orders", 4)
PAYMENTS: Final = TopicSpec("payments", 2)  # in transactions, of which some abort
PRICES: Final = TopicSpec("prices", 2, {"cleanup.policy": "compact"})
TOPICS: Final = (ORDERS, PAYMENTS, PRICES)
GROUP: Final = "billing"
PLANTED: Final = {Cause.PRODUCER: 40, Cause.REPLICATOR: 60, Cause.FAILOVER: 25}
_RECORDS: Final = {"orders": 6000, "payments": 1500, "prices": 1000}
_SPAN_MS: Final = 3_600_000  # the records' own times are those of the last hour
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Practice:
    """The traffic of `flow` on `lab`."""

    lab: Lab
    flow: Flow

    @property
    def mirrors(self) -> LabMirrors:
        names = ", ".join(topic.name for topic in TOPICS)
        return LabMirrors(
            LabApplications(self.lab, self.lab.root), "audit-mirror", names, (self.flow,), positions=True, lanes=2
        )

    @property
    def _look(self) -> str:
        return f"Look at the logs in {self.lab.root}."

    @property
    def properties(self) -> Path:
        """The mirror's file."""
        return self.mirrors.path if self.mirrors.path.exists() else self.mirrors.write()

    def prepare(self, plant: bool) -> None:
        """Write and mirror, where nothing is there yet; with `plant`, duplicates too. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[self.flow.source].settings()) as source:
            if source.topics([ORDERS.name]):
                return
        bootstrap = self.lab.clusters[self.flow.source].bootstrap
        create_topics(bootstrap, TOPICS)
        began_ms = int(time.time() * 1000) - _SPAN_MS
        for topic in (ORDERS, PRICES):
            _write(bootstrap, topic, _records(topic, began_ms))
        _write_transactions(bootstrap, PAYMENTS, _records(PAYMENTS, began_ms))
        if plant:  # what a producer without idempotence does when an acknowledgement is lost
            stretch = list(_records(ORDERS, began_ms))[2000 : 2000 + PLANTED[Cause.PRODUCER]]
            _write(bootstrap, ORDERS, stretch)
        abort = Abort(self.lab.root)
        self.mirrors.start(abort)
        wait_for(abort, "everything is mirrored", self._crossed, _PATIENCE_S, self._look, not_yet=(Unreachable,))
        positions = self._read_half()
        what = f"the positions of {GROUP} are on {self.flow.target}"
        wait_for(abort, what, lambda: self._told(positions), _PATIENCE_S, self._look, not_yet=(Unreachable,))
        self.mirrors.stop()
        if plant:
            self._copy_twice()
            self._go_back()

    def _read_half(self) -> dict[TopicPartition, CommittedOffset]:
        """The group's positions on the source: half of each partition of the orders."""
        with Cluster(self.lab.clusters[self.flow.source].settings()) as source:
            ends = source.log_ends(TopicPartition(ORDERS.name, number) for number in range(ORDERS.partitions))
            positions = {at: CommittedOffset(end // 2) for at, end in ends.items()}
            abort = Abort(self.lab.root)

            def placed() -> bool:  # a broker that has just started has no coordinator for a moment
                source.alter_group_offsets(GROUP, positions)
                return True

            wait_for(abort, f"{GROUP} stands half-way", placed, _PATIENCE_S, self._look, not_yet=(Unreachable,))
        return positions

    def _crossed(self) -> bool:
        told = self.mirrors.status()
        mirrored = {(p.topic, p.partition): p.mirrored for f in (told.flows if told else ()) for p in f.partitions}
        wanted = [TopicPartition(topic.name, number) for topic in TOPICS for number in range(topic.partitions)]
        with Cluster(self.lab.clusters[self.flow.source].settings()) as source:
            ends = source.log_ends(wanted)
        return all(mirrored.get((at.topic, at.partition), 0) >= end for at, end in ends.items())

    def _told(self, positions: dict[TopicPartition, CommittedOffset]) -> bool:
        """Do the checkpoints say where the group would go on now that everything is there?"""
        found = translate_groups(self.mirrors.settings, self.flow, [GROUP], source_alive=True)
        exact = {one.target: one.translation.offset for one in found if one.translation.exact}
        return len(exact) == len(positions) and exact == self._checkpoints()

    def _checkpoints(self) -> dict[TopicPartition, int | None]:
        target = self.lab.clusters[self.flow.target].settings()
        told = read_checkpoints(target, POLICY.checkpoints_topic(self.flow.source))
        return {one.partition: one.offset for one in told if one.group == GROUP}

    def _copy_twice(self) -> None:
        """What a replicator does that goes on from an old position."""
        remote = POLICY.remote_topic(self.flow.source, ORDERS.name)
        cluster = self.lab.clusters[self.flow.target]
        with Cluster(cluster.settings()) as target:
            at = TopicPartition(remote, 2)
            stretch = list(target.read({at: Range(100, 100 + PLANTED[Cause.REPLICATOR])}))
        _write(cluster.bootstrap, TopicSpec(remote, ORDERS.partitions), stretch)

    def _go_back(self) -> None:
        """What a group does that is moved by sparse offset syncs: it goes on a little behind where it was."""
        there = {at: offset for at, offset in self._checkpoints().items() if offset is not None}
        behind = min(there, key=lambda at: at.partition)
        begun = {
            at: CommittedOffset(offset - (PLANTED[Cause.FAILOVER] if at == behind else 0))
            for at, offset in there.items()
        }
        with Cluster(self.lab.clusters[self.flow.target].settings()) as target:
            target.alter_group_offsets(GROUP, begun)
            ends = target.log_ends(there)
            target.alter_group_offsets(GROUP, {at: CommittedOffset(end) for at, end in ends.items()})


def _records(topic: TopicSpec, began_ms: int) -> Iterable[Record]:
    """The same each time: keys and values that are missing or empty among them, an ID and a null in the headers."""
    many = _RECORDS[topic.name]
    compacted = topic is PRICES
    for n in range(many):
        key = b"%s-%d" % (topic.name.encode(), n % 50) if compacted or n % 7 else None
        value = None if n % 31 == 30 else b"" if n % 37 == 36 else b'{"number":%d}' % n
        headers = (("id", b"%d" % n), ("trace", None if n % 2 else b"%x" % n))
        at_ms = began_ms + n * _SPAN_MS // many
        yield Record(TopicPartition(topic.name, n % topic.partitions), n, at_ms, key, value, headers)


def _write(bootstrap: str, topic: TopicSpec, records: Iterable[Record]) -> None:
    _send(Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}), topic, records)


def _write_transactions(bootstrap: str, topic: TopicSpec, records: Iterable[Record]) -> None:
    """A hundred records each; every fifth transaction aborts."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"audit-practice-{topic.name}", "log_level": 0}
    )
    producer.init_transactions(_PATIENCE_S)
    every = list(records)
    for begun in range(0, len(every), 100):
        producer.begin_transaction()
        _send(producer, topic, every[begun : begun + 100])
        if begun // 100 % 5 == 4:
            producer.abort_transaction(_PATIENCE_S)
        else:
            producer.commit_transaction(_PATIENCE_S)


def _send(producer: Producer, topic: TopicSpec, records: Iterable[Record]) -> None:
    """Raises `Unreachable` when not all of them are acknowledged."""
    for record in records:
        producer.produce(
            topic.name,
            record.value,
            record.key,
            record.partition.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        producer.poll(0)
    if left := producer.flush(_PATIENCE_S):
        raise Unreachable(f"{left} records of {topic.name} were not taken", "the broker is silent", "Look at its log.")
