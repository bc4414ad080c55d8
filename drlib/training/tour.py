"""One minute with a lab: its processes, a mirrored topic, and a group's position on the other cluster.

Rules: everything it shows is read from the lab at that moment; run again, it adds records to its topic; `close` stops what it
started, including the lab if it did not run before. Not for: drills, which have plans and proofs.
"""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Final

from drlib.arguments import checked
from drlib.closing import Closing
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import POLICY, LabMirrors, refuse_other_workers, refuse_topic
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, log_ends, place_group
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.table import Table
from drlib.runs.waiting import wait_on_lab

FLOW: Final = Flow("LEFT", "RIGHT")
GROUP: Final = "readers"
PARTITIONS: Final = 3
_PATIENCE_S: Final = 60.0
NEXT: Final = (
    ("01_mirror_two_clusters", "two data centres are active at once, a third joins, one fails"),
    ("02_fail_over", "LEFT fails, and the applications continue on RIGHT"),
    ("03_fail_back", "the way back, and the records that only LEFT had"),
    ("04_consume_in_order", "every key stays in order across a failover, and what happens without ordered reading"),
    ("05_find_duplicates", "every duplicate record, and its cause"),
    ("08_audit_clusters", "both clusters compared, record by record"),
)


class Tour(Closing):
    """A lab that runs in `lab_dir`, or one started there, and a `topic` on it. A context manager; `close` may be repeated."""

    @checked
    def __init__(self, lab_dir: str | Path = "../.lab", topic: str = "hello") -> None:
        refuse_topic(topic, (FLOW,))
        self._lab, self._own = Lab.attach_or_up(Path(lab_dir), needed=(FLOW.source, FLOW.target))
        self._topic = topic
        self._copy = POLICY.remote_topic(FLOW.source, topic)
        self._mirrors = LabMirrors(self._lab, f"{topic}-mirror", topic, (FLOW,), positions=True, lanes=2)
        self._abort = Abort(self._lab.root)

    def clusters(self) -> Table:
        """The lab's processes, and how an application and a mirror reach each cluster."""
        rows: list[dict[str, Scalar]] = []
        for alias, cluster in self._lab.clusters.items():
            with Cluster(cluster.settings()) as handle:
                cluster_id, topics = handle.cluster_id(), len(handle.topics())
            rows.append(
                {
                    "cluster": alias,
                    "applications connect to": cluster.bootstrap,
                    "the mirror, over the link": cluster.link_bootstrap,
                    "topics": topics,
                    "ID": cluster_id,
                }
            )
        return Table("A real Kafka cluster each, and a link between them that can be cut, slowed and counted", rows)

    def files(self) -> Table:
        """What is in the lab's folder."""
        descriptions = {
            "state.json": "the lab: any process that reads it can attach",
            "processes.json": "every process of it; drlib lab down stops exactly these",
            "proxy.log": "the link between the clusters",
            "connect-mirror-maker.properties": "MirrorMaker 2's file, which drlib mirror takes unchanged",
        }
        self._lab.write_properties()
        rows: list[dict[str, Scalar]] = [
            {"file": name, "what it is": what}
            for name, what in descriptions.items()
            if (self._lab.root / name).exists()
        ]
        rows += [
            {"file": f"{b.name}/", "what it is": f"the data and the log of broker {b.name}"}
            for c in self._lab.clusters.values()
            for b in c.brokers
        ]
        folder = quote(str(self._lab.root))
        shell = f"Shell: drlib lab status --dir {folder}, drlib lab down --dir {folder}, drlib --help"
        return Table(f"In {self._lab.root.name}/", rows, shell)

    @checked
    def mirror(self, records: int = 1000) -> Table:
        """Write `records` to the topic on LEFT, mirror it, and compare both sides record by record.

        Raises `UsageError` while another worker mirrors LEFT, as a drill's may that was aborted: each has lanes of its own.
        """
        if records < 1:
            raise UsageError(f"{records} records", "there is nothing to mirror", "Give a number from 1 on.")
        left = self._lab.clusters[FLOW.source]
        create_topics(left.settings(), [TopicSpec(self._topic, PARTITIONS)])
        with acknowledged(left) as producer:
            for number in range(records):
                producer.produce(self._topic, key=f"key-{number % 50}", value=f"hello {number}")
                producer.poll(0)
        if not self._mirrors.runs:
            with Cluster(self._lab.clusters[FLOW.target].settings()) as target:
                refuse_other_workers(target, FLOW, "the tour")
        self._mirrors.start(self._abort)
        source_records = self._read(FLOW.source, self._topic)
        self._wait("everything is on RIGHT", lambda: len(self._read(FLOW.target, self._copy)) >= len(source_records))
        target_records = self._read(FLOW.target, self._copy)
        rows: list[dict[str, Scalar]] = []
        for number in range(PARTITIONS):
            ours = [_content(record) for record in source_records if record.partition.partition == number]
            theirs = [_content(record) for record in target_records if record.partition.partition == number]
            rows.append(
                {
                    "partition": number,
                    f"{self._topic} on LEFT": len(ours),
                    f"{self._copy} on RIGHT": len(theirs),
                    "same records, same order": ours == theirs,
                }
            )
        return Table(f"{self._copy}: the prefix names its source cluster", rows)

    def translate(self) -> Table:
        """The position on RIGHT of a group half-way through the topic on LEFT, and the next record at both."""
        ends = self._ends(FLOW.source, self._topic)
        if not any(ends.values()):
            raise UsageError(f"{self._topic} is empty", "nothing was mirrored yet", "Run mirror() first.")
        positions = {partition: end // 2 for partition, end in ends.items() if end}
        self._wait(
            f"the positions of {GROUP} are committed",
            lambda: place_group(self._lab.clusters[FLOW.source], GROUP, positions),
        )
        rows: list[dict[str, Scalar]] = []
        for item in translate_groups(self._mirrors.settings, FLOW, [GROUP], source_alive=True):
            if item.source.topic != self._topic or item.translation.offset is None:
                continue
            source_record = self._next_record(FLOW.source, item.source, item.source_offset)
            target_record = self._next_record(FLOW.target, item.target, item.translation.offset)
            rows.append(
                {
                    "partition": item.source.partition,
                    "on LEFT": item.source_offset,
                    "on RIGHT": item.translation.offset,
                    "meaning": item.translation.kind.value,
                    "next on LEFT": source_record,
                    "next on RIGHT": target_record,
                    "the same record": source_record == target_record,
                }
            )
        file = quote(str(self._mirrors.properties))  # the lab's own file has other topics
        return Table(f"Group {GROUP}", rows, f"Shell: drlib translate --flow '{FLOW}' --group {GROUP} {file}")

    def onwards(self) -> Table:
        """The notebooks and their subjects."""
        return Table("Where to go from here", [{"notebook": name, "what happens": what} for name, what in NEXT])

    def close(self) -> None:
        """Stop the mirror, and the lab if this tour started it."""
        if self._mirrors.runs:
            self._mirrors.stop()
        if self._own:
            self._lab.down()

    def _ends(self, cluster: str, topic: str) -> dict[TopicPartition, int]:
        return log_ends(self._lab.clusters[cluster], [topic])

    def _read(self, cluster: str, topic: str) -> list[Record]:
        """All records of `topic` on `cluster`, in order within each partition; none where it does not exist."""
        ends = {partition: Range(0, end) for partition, end in self._ends(cluster, topic).items() if end}
        with Cluster(self._lab.clusters[cluster].settings()) as handle:
            return list(handle.read(ends)) if ends else []

    def _next_record(self, cluster: str, partition: TopicPartition, position: int) -> str:
        """The record a consumer at `position` would read next; empty at the end."""
        end = self._ends(cluster, partition.topic)[partition]
        with Cluster(self._lab.clusters[cluster].settings()) as handle:
            for record in handle.read({partition: Range(position, end)}, Isolation.READ_COMMITTED):
                return f"{(record.key or b'').decode()}: {(record.value or b'').decode()}"
        return ""

    def _wait(self, what: str, holds: Callable[[], bool]) -> None:
        wait_on_lab(self._abort, what, holds, _PATIENCE_S, self._lab.root)


def _content(record: Record) -> tuple[bytes | None, bytes | None, int]:
    return record.key, record.value, record.timestamp_ms
