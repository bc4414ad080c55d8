"""A cluster's topics followed by Structured Streaming, as sums for each partition and stretch of time.

Rules: one query a cluster, with a checkpoint and a folder of sums of its own, so that a cluster which is silent does not keep
the other one from being read. Read committed: the connector asks for last stable offsets then, and control records are no
rows. Where to begin is said once; from then on the checkpoint says it. Offsets that are no longer there fail the query
(`failOnDataLoss`), and so do partitions that were added and have lost their beginning. There is no watermark: a record that
comes late changes its bucket. A partition that holds more than its share is read by several tasks (`minPartitions`).
A side was *read to its end* at a moment when its position is at, or past, the ends that its cluster told at that moment.
Not for: folders on an object store; the folder is a path that this process and, on a Spark cluster, its executors share.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib import clock
from drlib.analysis.audit.compare import reading_failure
from drlib.analysis.continuous.bucket_sums import SumsFolder, bucket_sums
from drlib.analysis.spark.topics import FETCH_MAX_WAIT_MS, TIMEOUT_S, java_options
from drlib.errors import DrlibError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.external_files import last_committed_batch
from drlib.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

BATCH_OFFSETS: Final = 2_000_000  # a side: what a restart reads again at most, and how soon a long backlog shows
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


class BucketStream:
    """One side. `begin` and `stop` may alternate, in this process and in the next one, on one `folder`."""

    def __init__(
        self,
        where: ClusterSettings,
        topics: Sequence[FollowedTopic],
        folder: Path,
        bucket_ms: int,
        *,
        batch_offsets: int = BATCH_OFFSETS,
    ) -> None:
        self.where = where
        self.topics = tuple(topics)
        self.folder = folder
        self.sums = SumsFolder(folder / "sums")
        self._bucket_ms = bucket_ms
        self._batch_offsets = batch_offsets
        self._query: StreamingQuery | None = None
        self._asked: tuple[int, Mapping[TopicPartition, int]] | None = None  # a moment, and the ends then

    def begin(self, spark: SparkSession, every_s: float | None = None) -> None:
        """Go on from where it stood: up to what is there now, or for good with a batch `every_s` seconds at most.

        Returns when the query is started; `running`, `failure` and `stop` are about it. Raises `Unreachable` where the
        cluster does not tell its ends.
        """
        self._ask()
        starts = {topic.name: {str(p): at for p, at in topic.start.items()} for topic in self.topics}
        partitions = sum(len(topic.start) for topic in self.topics)
        stream = (
            spark.readStream.format("kafka")
            .options(**java_options(self.where))
            .option("kafka.bootstrap.servers", ",".join(self.where.bootstrap_servers))
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
            self._keep
        )
        trigger = (
            {"availableNow": True} if every_s is None else {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        )
        self._query = writer.trigger(**trigger).start()

    def _keep(self, records: DataFrame, batch: int) -> None:
        self.sums.write(bucket_sums(records, self._bucket_ms), batch)

    @property
    def running(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    def failure(self) -> str | None:
        """Why the query ended by itself before its time; None where it did not."""
        error = self._query.exception() if self._query is not None and not self._query.isActive else None
        if error is None:
            return None
        text = str(error)
        return reading_failure(text) or " ".join(text.split())[:300]

    def wait(self, seconds: float) -> None:
        """Until the query ends, or `seconds` have passed; what it failed of is `failure`'s to say."""
        from pyspark.errors import StreamingQueryException

        if self._query is not None:
            try:
                self._query.awaitTermination(seconds)
            except StreamingQueryException:
                return

    def stop(self) -> None:
        """End the query; the batch it was at is run again by the next `begin`. May be repeated."""
        if self._query is not None and self._query.isActive:
            self._query.stop()

    def position(self) -> Position:
        """Where it stands: what `begin` of another process would go on from."""
        starts = {TopicPartition(topic.name, p): at for topic in self.topics for p, at in topic.start.items()}
        found = last_committed_batch(self.folder / "checkpoint")
        return Position(-1, starts) if found is None else Position(found.batch, {**starts, **found.offsets})

    def read_to_ms(self) -> int | None:
        """The latest moment known at which everything on the cluster then was read; None: there is none.

        Asks the cluster for its ends now, to be known once they are reached. A silent cluster leaves it as it was.
        """
        self._reached()
        if self._asked is None:
            with contextlib.suppress(DrlibError):
                self._ask()
            self._reached()
        path = self.folder / _READ_TO
        return _MOMENT.validate_json(path.read_bytes()) if path.exists() else None

    def _ask(self) -> None:
        at_ms = clock.now_ms()
        with Cluster(self.where, timeout_s=TIMEOUT_S) as handle:
            names = [topic.name for topic in self.topics]
            wanted = [
                TopicPartition(name, n) for name, found in handle.topics(names).items() for n in range(found.partitions)
            ]
            self._asked = at_ms, handle.log_ends(wanted, Isolation.READ_COMMITTED)

    def _reached(self) -> None:
        """Keep the moment that was asked about, if its ends are behind by now."""
        if self._asked is None:
            return
        at_ms, ends = self._asked
        stands = self.position().offsets
        if all(stands.get(partition, 0) >= end for partition, end in ends.items()):
            write_whole(self.folder / _READ_TO, _MOMENT.dump_json(at_ms))
            self._asked = None
