"""A cluster's topics followed by a streaming query, as sums per partition and bucket of time.

Rules: one streaming query per cluster, with a checkpoint and a folder of sums of its own, so that an unreachable cluster does
not stop the other one from being read. Read committed: the connector asks for last stable offsets then, and control records
are not rows. Start offsets apply once; after that the checkpoint counts. Deleted offsets fail the query (`failOnDataLoss`), and
so do partitions that were added and lost their first records. There is no watermark: a late record changes its bucket. A large
partition is read by several tasks (`minPartitions`).
What is compared of a batch (`Keep`) is asked of the clusters; while a leader moves or a broker restarts it is asked again, for
`KEEP_S`.
A side was *read to its end* at a moment when its position is at or past the end offsets that the cluster had at that moment.
Not for: folders on an object store; the folder is a path shared by this process and, on a Spark cluster, its executors.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib import clock
from drlib.analysis.audit.compare import read_failure
from drlib.analysis.continuous.bucket_sums import SumsFolder, bucket_sums
from drlib.analysis.spark import kafka_source
from drlib.analysis.spark.session import exit_code
from drlib.analysis.spark.topics import FETCH_MAX_WAIT_MS, TIMEOUT_S
from drlib.errors import DrlibError
from drlib.files import read_json, write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.external_files import last_committed_batch
from drlib.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

BATCH_OFFSETS: Final = 2_000_000  # per side and micro-batch: a restart reads at most so many again
KEEP_S: Final = 120.0
_KEEP_PAUSE_S: Final = 1.0
_READ_TO: Final = "read-to.json"
_MOMENT: Final = TypeAdapter(int)


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic of one side. `source` is its name on the source; `start` the first offset of each partition to be read."""

    name: str
    source: str
    topic_id: str
    compacted: bool
    start: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Position:
    """The last committed batch (-1: none) and the next offset of each partition, by the names of this side."""

    batch: int
    offsets: Mapping[TopicPartition, int]


Answer = TypeVar("Answer")
Keep = Callable[[DataFrame], DataFrame]
"""Leaves out records that are not compared, of a frame with columns topic, partition and offset."""


class BucketStream:
    """One side. `start` and `stop` may alternate, in this process and in later ones, on one `folder`."""

    def __init__(
        self,
        where: ClusterSettings,
        topics: Sequence[FollowedTopic],
        folder: Path,
        bucket_ms: int,
        *,
        batch_offsets: int = BATCH_OFFSETS,
        keep: Keep | None = None,
    ) -> None:
        self.where = where
        self.topics = tuple(topics)
        self.folder = folder
        self.sums = SumsFolder(folder / "sums")
        self._bucket_ms = bucket_ms
        self._batch_offsets = batch_offsets
        self.keep: Keep = keep or (lambda records: records)
        self._query: StreamingQuery | None = None
        self._stopped = threading.Event()
        self._refused: DrlibError | None = None  # why a batch of the query was not counted
        self._pending_ends: tuple[int, Mapping[TopicPartition, int]] | None = None  # when, and the end offsets then

    def start(self, spark: SparkSession, every_s: float | None = None) -> None:
        """Resume from the checkpoint: up to the current end offsets, or continuously with a micro-batch `every_s` seconds at
        most.

        Returns when the streaming query has started; `running`, `failure` and `stop` are about it. Raises `Unreachable` when
        the cluster does not answer.
        """
        self._read_ends()
        starts = {topic.name: {str(p): at for p, at in topic.start.items()} for topic in self.topics}
        partitions = sum(len(topic.start) for topic in self.topics)
        stream = (
            kafka_source.read_stream(spark, self.where)
            .option("subscribe", ",".join(starts))
            .option("startingOffsets", json.dumps(starts))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", "read_committed")
            .option("kafka.fetch.max.wait.ms", str(FETCH_MAX_WAIT_MS))
            .option("maxOffsetsPerTrigger", str(self._batch_offsets))
            .option("minPartitions", str(partitions + 2 * spark.sparkContext.defaultParallelism))
            .load()
        )
        names = sf.create_map(*(sf.lit(part) for topic in self.topics for part in (topic.name, topic.source)))
        records = stream.select(
            names[sf.col("topic")].alias("topic"), "partition", "offset", "timestamp", "key", "value", "headers"
        )
        writer = records.writeStream.option("checkpointLocation", str(self.folder / "checkpoint")).foreachBatch(
            self._write_batch
        )
        trigger = (
            {"availableNow": True} if every_s is None else {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        )
        self._refused = None
        self._stopped.clear()
        self._query = writer.trigger(**trigger).start()

    def _write_batch(self, records: DataFrame, batch: int) -> None:
        try:
            kept = again_while_retriable(lambda: self.keep(records), KEEP_S, self._stopped)
        except DrlibError as error:
            self._refused = error
            raise
        self.sums.write(bucket_sums(kept, self._bucket_ms), batch)

    @property
    def running(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    def failure(self) -> str | None:
        """Why the query failed; None where it did not."""
        error = self._query.exception() if self._query is not None and not self._query.isActive else None
        if error is None:
            return None
        if self._refused is not None:
            return f"{self._refused}"
        text = str(error)
        return read_failure(text) or " ".join(text.split())[:300]

    def wait(self, seconds: float) -> None:
        """Wait until the query ends, at most `seconds`; an error of it is left to `failure`."""
        from pyspark.errors import StreamingQueryException

        if self._query is not None:
            try:
                self._query.awaitTermination(seconds)
            except StreamingQueryException:
                return

    def stop(self) -> None:
        """Stop the query; an uncommitted batch is run again by the next `start`. May be repeated."""
        self._stopped.set()
        if exit_code() is None and self._query is not None and self._query.isActive:
            self._query.stop()

    def position(self) -> Position:
        """The committed position, from which the next `start` resumes."""
        starts = {TopicPartition(topic.name, p): at for topic in self.topics for p, at in topic.start.items()}
        checkpoint = last_committed_batch(self.folder / "checkpoint")
        return (
            Position(-1, starts) if checkpoint is None else Position(checkpoint.batch, {**starts, **checkpoint.offsets})
        )

    def read_to_ms(self) -> int | None:
        """The latest known moment at which everything then on the cluster had been read; None: there is none.

        Reads the cluster's current end offsets, so that a later call can know that they were reached. While the cluster does
        not answer, the moment stays as it was.
        """
        self._record_read_to()
        if self._pending_ends is None:
            with contextlib.suppress(DrlibError):
                self._read_ends()
            self._record_read_to()
        path = self.folder / _READ_TO
        return read_json(path, _MOMENT) if path.exists() else None

    def _read_ends(self) -> None:
        at_ms = clock.now_ms()
        with Cluster(self.where, timeout_s=TIMEOUT_S) as handle:
            names = [topic.name for topic in self.topics]
            partitions = [
                TopicPartition(name, n) for name, topic in handle.topics(names).items() for n in range(topic.partitions)
            ]
            self._pending_ends = at_ms, handle.log_ends(partitions, Isolation.READ_COMMITTED)

    def _record_read_to(self) -> None:
        """Store the moment of the pending end offsets once they have been reached."""
        if self._pending_ends is None:
            return
        at_ms, ends = self._pending_ends
        offsets = self.position().offsets
        if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
            write_whole(self.folder / _READ_TO, _MOMENT.dump_json(at_ms))
            self._pending_ends = None


def again_while_retriable(call: Callable[[], Answer], give_up_s: float, stopped: threading.Event) -> Answer:
    """What `call` returns; it is called again while its error is one that passes, for `give_up_s`, until `stopped`."""
    end = time.monotonic() + give_up_s
    while True:
        try:
            return call()
        except DrlibError as error:
            if not error.retriable or time.monotonic() > end or stopped.wait(_KEEP_PAUSE_S):
                raise
