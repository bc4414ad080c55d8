"""Traffic for an audit on a lab: a few topics, mirrored, and optionally with duplicates planted in them.

Rules: everything is written once; a lab that has these topics already is used as it is. The planted duplicates are counted, so
that a search can be checked: a range written twice by a producer, one copied twice onto the target, and a group that resumes
on the target before its position. They have topics, a group and a mirror of their own: other audits of the same lab find
none of them. The mirror is stopped before anything is read.
Not for: clusters that are not a lab.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import Producer

from drlib import clock
from drlib.analysis.audit.checkpoints import read_checkpoints
from drlib.analysis.duplicates.result import Cause
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.descriptions import Range, Record
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import POLICY, LabMirrors
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, log_ends, place_group
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

ORDERS: Final = TopicSpec("orders", 4)
PAYMENTS: Final = TopicSpec("payments", 2)  # in transactions, of which some abort
PRICES: Final = TopicSpec("prices", 2, {"cleanup.policy": "compact"})
GROUP: Final = "billing"
OF_PLANTED: Final = "planted-"  # begins the names of what has duplicates planted
PLANTED: Final[Mapping[Cause, int]] = MappingProxyType({Cause.PRODUCER: 40, Cause.REPLICATOR: 60, Cause.FAILOVER: 25})
_RECORDS: Final = {ORDERS.name: 6000, PAYMENTS.name: 1500, PRICES.name: 1000}
_SPAN_MS: Final = 3_600_000  # the records' own times are those of the last hour
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class AuditPractice:
    """The traffic of `flow` on `lab`; with `plant`, that with duplicates."""

    lab: Lab
    flow: Flow
    plant: bool = False

    @property
    def orders(self) -> TopicSpec:
        return self._spec(ORDERS)

    @property
    def topics(self) -> tuple[TopicSpec, ...]:
        return self.orders, self._spec(PAYMENTS), self._spec(PRICES)

    @property
    def group(self) -> str:
        return self._named(GROUP)

    @property
    def planted(self) -> Mapping[str, Mapping[Cause, int]]:
        """How many duplicates of each cause a search has to find, by topic."""
        return {self.orders.name: PLANTED} if self.plant else {}

    @property
    def mirrors(self) -> LabMirrors:
        names = ", ".join(topic.name for topic in self.topics)
        return LabMirrors(self.lab, self._named("audit-mirror"), names, (self.flow,), positions=True, lanes=2)

    @property
    def properties(self) -> Path:
        """The mirror's file."""
        return self.mirrors.properties if self.mirrors.properties.exists() else self.mirrors.write()

    def prepare(self) -> None:
        """Write and mirror, unless the topics exist. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[self.flow.source].settings()) as source:
            if source.topics([self.orders.name]):
                return
        left = self.lab.clusters[self.flow.source]
        create_topics(left.settings(), self.topics)
        began_ms = clock.now_ms() - _SPAN_MS
        for topic in (ORDERS, PRICES):
            _write(left, self._spec(topic), _records(topic, began_ms))
        _write_transactions(left, self._spec(PAYMENTS), _records(PAYMENTS, began_ms))
        if self.plant:  # as a producer without idempotence does when an acknowledgement is lost
            records = list(_records(ORDERS, began_ms))[2000 : 2000 + PLANTED[Cause.PRODUCER]]
            _write(left, self.orders, records)
        abort = Abort(self.lab.root)
        self.mirrors.start(abort)
        wait_on_lab(abort, "everything is mirrored", self._all_mirrored, _PATIENCE_S, self.lab.root)
        positions = self._read_half(abort)
        condition = f"the positions of {self.group} are on {self.flow.target}"
        wait_on_lab(abort, condition, lambda: self._checkpoints_are_exact(positions), _PATIENCE_S, self.lab.root)
        self.mirrors.stop()
        if self.plant:
            self._copy_twice()
            self._rewind_group()

    def _named(self, name: str) -> str:
        return f"{OF_PLANTED}{name}" if self.plant else name

    def _spec(self, topic: TopicSpec) -> TopicSpec:
        return replace(topic, name=self._named(topic.name))

    def _ends(self) -> dict[TopicPartition, int]:
        return log_ends(self.lab.clusters[self.flow.source], [topic.name for topic in self.topics])

    def _all_mirrored(self) -> bool:
        return self.mirrors.crossed(self.flow, self._ends())

    def _read_half(self, abort: Abort) -> dict[TopicPartition, int]:
        """Commit half of each partition of the orders for the group; returns those positions."""
        positions = {
            partition: end // 2 for partition, end in self._ends().items() if partition.topic == self.orders.name
        }
        source = self.lab.clusters[self.flow.source]
        condition = f"the positions of {self.group} are committed on {self.flow.source}"
        wait_on_lab(abort, condition, lambda: place_group(source, self.group, positions), _PATIENCE_S, self.lab.root)
        return positions

    def _checkpoints_are_exact(self, positions: dict[TopicPartition, int]) -> bool:
        """Whether the checkpoints hold the exact translation of every position."""
        translations = translate_groups(self.mirrors.settings, self.flow, [self.group], source_alive=True)
        exact = {item.target: item.translation.offset for item in translations if item.translation.exact}
        return len(exact) == len(positions) and exact == self._checkpoints()

    def _checkpoints(self) -> dict[TopicPartition, int | None]:
        target = self.lab.clusters[self.flow.target].settings()
        checkpoints = read_checkpoints(target, POLICY.checkpoints_topic(self.flow.source))
        return {each.partition: each.offset for each in checkpoints if each.group == self.group}

    def _copy_twice(self) -> None:
        """Plant what a replicator does that resumes from an old position."""
        remote = POLICY.remote_topic(self.flow.source, self.orders.name)
        cluster = self.lab.clusters[self.flow.target]
        with Cluster(cluster.settings()) as target:
            at = TopicPartition(remote, 2)
            records = list(target.read({at: Range(100, 100 + PLANTED[Cause.REPLICATOR])}))
        _write(cluster, TopicSpec(remote, self.orders.partitions), records)

    def _rewind_group(self) -> None:
        """Plant what a group does that is moved by sparse offset syncs: it resumes a little before its position."""
        positions = {at: offset for at, offset in self._checkpoints().items() if offset is not None}
        rewound = min(positions, key=lambda at: at.partition)
        target = self.lab.clusters[self.flow.target]
        place_group(target, self.group, {**positions, rewound: positions[rewound] - PLANTED[Cause.FAILOVER]})
        ends = log_ends(target, {partition.topic for partition in positions})
        place_group(target, self.group, {partition: ends[partition] for partition in positions})


def _records(topic: TopicSpec, began_ms: int) -> Iterable[Record]:
    """Always the same records; some keys and values are null or empty, headers have an ID and a null."""
    many = _RECORDS[topic.name]
    compacted = topic is PRICES
    for n in range(many):
        key = b"%s-%d" % (topic.name.encode(), n % 50) if compacted or n % 7 else None
        value = None if n % 31 == 30 else b"" if n % 37 == 36 else b'{"number":%d}' % n
        headers = (("id", b"%d" % n), ("trace", None if n % 2 else b"%x" % n))
        at_ms = began_ms + n * _SPAN_MS // many
        yield Record(TopicPartition(topic.name, n % topic.partitions), n, at_ms, key, value, headers)


def _write(cluster: LabCluster, topic: TopicSpec, records: Iterable[Record]) -> None:
    with acknowledged(cluster) as producer:
        _send(producer, topic, records)


def _write_transactions(cluster: LabCluster, topic: TopicSpec, records: Iterable[Record]) -> None:
    """A hundred records each; every fifth transaction aborts."""
    producer = Producer(
        {**librdkafka(cluster.settings()), "transactional.id": f"audit-practice-{topic.name}", "log_level": 0}
    )
    producer.init_transactions(_PATIENCE_S)
    every = list(records)
    for begun in range(0, len(every), 100):
        producer.begin_transaction()
        _send(producer, topic, every[begun : begun + 100])
        producer.flush(_PATIENCE_S)
        if begun // 100 % 5 == 4:
            producer.abort_transaction(_PATIENCE_S)
        else:
            producer.commit_transaction(_PATIENCE_S)


def _send(producer: Producer, topic: TopicSpec, records: Iterable[Record]) -> None:
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
