"""The measured throughput of a link: clients that wait for each response, and drlib's engine, over the lab's link.

Rules: records are random bytes in batches of 16 KB, so that nothing compresses and a response has the requested size; received
record batches are counted, over a window without start-up and end. LEFT's link is set and always cleared afterwards; topics,
copies, journals and processes of the trial are removed. The proxy delays bytes between local TCP connections, so effects of
TCP itself on a long line are not included.
Not for: comparing engines (`make bench`), or a lab that is used at the same time.
"""

import asyncio
import os
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Producer
from javaproperties import join_key_value

from drlib.errors import Unreachable, UsageError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka, wire_client
from drlib.kafka.net import requests
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.protocol.fetch import FetchPartition
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.lab.link.sizing import KIB, LinkSpec
from drlib.lab.processes import wait_until
from drlib.model import TopicPartition

SOURCE, TARGET = "LEFT", "RIGHT"
RECORD_BYTES: Final = 1024
BATCH_BYTES: Final = 16 * KIB
RUN_S: Final = 2.0  # of clients that wait, after their first answers
FIRST, LAST = 0.1, 0.9  # of what our engine has to copy: the window that is counted
_FACTORS: Final = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
)
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """`rate` in bytes per second of record batches; `request` in bytes, for clients that wait."""

    rate: float
    clients: int = 0
    request: int = 0
    workers: int = 0
    lanes: int = 0


class LinkTrial:
    """A topic of `megabytes` on LEFT of `lab`, behind `link`. A context manager."""

    def __init__(self, lab: Lab, link: LinkSpec, *, partitions: int = 4, megabytes: int = 64) -> None:
        if partitions < 1 or megabytes < 1:
            raise UsageError(
                f"a trial of {megabytes} MB on {partitions} partitions", "there is nothing to carry", "Give at least 1."
            )
        self._lab, self.link, self.partitions = lab, link, partitions
        self._tag = secrets.token_hex(3)
        self.topic = f"trial-{self._tag}"
        self._made = 0
        self._records = megabytes * 10**6 // RECORD_BYTES
        self._names: list[str] = []

    def __enter__(self) -> Self:
        try:
            self._fill()
            self._lab.proxy.set(SOURCE, delay_ms=self.link.rtt_s * 500, bandwidth=self.link.bandwidth)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the processes, clear the link, delete the topics. May be repeated."""
        for name in self._names:
            self._lab.registry.stop(name)
        self._names.clear()
        self._lab.proxy.clear(SOURCE)
        for alias in (SOURCE, TARGET):
            with Cluster(self._lab.clusters[alias].settings()) as cluster:
                for topic in cluster.topics():
                    if self._tag in topic:
                        cluster.delete_topic(topic)

    def waiting(self, request: int, clients: int = 1) -> Measured:
        """`clients` that wait for every response of `request` bytes, each with its own connection and partition."""
        with ThreadPoolExecutor(1) as thread:  # a notebook's kernel runs a loop of its own in the caller's thread
            rate = thread.submit(asyncio.run, self._wait_for_answers(request, clients)).result()
        return Measured(rate, clients=clients, request=request)

    def mirrored(self, workers: int, lanes: int) -> Measured:
        """The engine, as `workers` processes on `lanes` lanes. Raises `Unreachable` when it does not finish in time."""
        self._made += 1
        alias = f"{self._tag}x{self._made}"
        names = [f"trial-{alias}-{n}" for n in range(workers)]
        copy = [TopicPartition(f"{alias}.{self.topic}", number) for number in range(self.partitions)]
        log = self._lab.root / f"trial-{alias}.log"
        argv = [sys.executable, "-P", "-m", "drlib.cli", "mirror", str(self._properties(alias, lanes))]
        try:
            for name in names:
                self._names.append(name)
                self._lab.registry.start(name, argv, log=log)
            return Measured(self._watch(copy, log), workers=workers, lanes=lanes)
        finally:
            for name in names:
                self._lab.registry.stop(name)
                self._names.remove(name)

    def _properties(self, alias: str, lanes: int) -> Path:
        path = self._lab.root / f"trial-{alias}.properties"
        wanted = {
            "clusters": f"{alias}, to-{alias}",
            **_reached(alias, self._behind_the_link),
            **_reached(f"to-{alias}", self._lab.clusters[TARGET].settings()),
            f"{alias}->to-{alias}.enabled": "true",
            "topics": self.topic,
            **dict.fromkeys(_FACTORS, "1"),
            "drlib.lanes": str(lanes),
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "emit.offset-syncs.enabled": "false",
        }
        write_whole(path, "".join(f"{join_key_value(key, value)}\n" for key, value in wanted.items()))
        return path

    @property
    def _behind_the_link(self) -> ClusterSettings:
        """LEFT over the link, as the lab's admin: a secured lab's mirror has no rights on the trial's topic."""
        return self._lab.clusters[SOURCE].settings("LINK", user=self._lab.admin)

    def _watch(self, copy: list[TopicPartition], log: Path) -> float:
        """Bytes per second between a tenth and nine tenths of the records."""
        began: tuple[float, int] | None = None
        until = time.monotonic() + _PATIENCE_S
        with Cluster(self._lab.clusters[TARGET].settings()) as cluster:
            while time.monotonic() < until:
                if not all(process.alive for process in self._lab.status() if process.name in self._names):
                    break
                done = 0
                if copy[0].topic in cluster.topics([copy[0].topic]):
                    done = sum(cluster.log_ends(copy).values())
                now = time.monotonic()
                if began is None and done >= FIRST * self._records:
                    began = (now, done)
                if began is not None and done >= LAST * self._records and done > began[1]:
                    return (done - began[1]) * RECORD_BYTES / (now - began[0])
                time.sleep(_LOOK_S)
        tail = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        raise Unreachable(
            "the mirror did not copy the trial's records",
            tail[0].rstrip(".") if tail else f"it took more than {_PATIENCE_S:g} s",
            "Try fewer megabytes, or a link that carries more.",
        )

    def _fill(self) -> None:
        direct = self._lab.clusters[SOURCE]
        with Cluster(direct.settings()) as cluster:
            cluster.create_topic(self.topic, self.partitions, 1, config={"retention.ms": "-1"})
            if not wait_until(lambda: self.topic in cluster.topics([self.topic]), _PATIENCE_S):
                raise Unreachable(f"{self.topic} does not show", "it was created on LEFT", "Look at the lab's brokers.")
        batches = {"batch.size": BATCH_BYTES, "linger.ms": 20, "log_level": 0}
        producer = Producer({**librdkafka(direct.settings()), **batches})
        values = [os.urandom(RECORD_BYTES) for _ in range(64)]
        for number in range(self._records):
            while True:
                try:
                    producer.produce(self.topic, value=values[number % 64], partition=number // 16 % self.partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
        if producer.flush(_PATIENCE_S):
            raise Unreachable("the trial's topic could not be filled", "LEFT was too slow", "Try fewer megabytes.")

    async def _wait_for_answers(self, request: int, clients: int) -> float:
        """The sum of the clients' rates in bytes per second, each measured after its first response."""
        source = wire_client(self._behind_the_link, client_id="drlib-trial")
        try:
            metadata = (await source.metadata([self.topic])).topics[self.topic]
            raise_for(metadata.error_code, f"reading {self.topic}")
            wanted = [TopicPartition(self.topic, n % self.partitions) for n in range(clients)]
            ends: dict[TopicPartition, int] = {}
            for partition in set(wanted):
                leader = await source.connection(metadata.partitions[partition.partition].leader, "waiting-0")
                ends |= await requests.list_offsets(leader, [partition], requests.LATEST)

            async def one(number: int) -> float:
                partition = wanted[number]
                connection = await source.connection(
                    metadata.partitions[partition.partition].leader, f"waiting-{number}"
                )
                position, got, began = 0, 0, 0.0
                while not began or time.perf_counter() - began < RUN_S:
                    asked = [FetchPartition(self.topic, metadata.topic_id, partition.partition, position, request)]
                    (part,) = await requests.fetch(
                        connection, asked, max_wait_ms=0, min_bytes=1, max_bytes=request, read_committed=True
                    )
                    raise_for(part.error_code, f"reading {partition}")
                    for header, _ in iter_batches(part.records):
                        position = max(position, header.next_offset)
                    if began:
                        got += len(part.records)
                    else:
                        began = time.perf_counter()
                    if position >= ends[partition]:
                        position = 0
                return got / (time.perf_counter() - began)

            return sum(await asyncio.gather(*(one(number) for number in range(clients))))
        finally:
            await source.close()


def _reached(alias: str, cluster: ClusterSettings) -> dict[str, str]:
    keys = {"bootstrap.servers": ",".join(cluster.bootstrap_servers), **cluster.security}
    return {f"{alias}.{key}": value for key, value in keys.items()}
