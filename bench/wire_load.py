"""The raw wire as a process of its own: produce a topic full, or read it, as fast as `drlib.kafka` goes.

It fills source topics, and it is the floor that engines are compared with: what fetching alone and producing alone cost
in the same language, over the same connections, on the same brokers. `python -m bench.wire_load produce|fetch ...`
prints one line of JSON, a `Load`.

Rules: plain batches without a producer ID, acks=-1, requests pipelined to a fixed window; nothing is checked, which is
what makes it a floor. Not for: copying.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.meter import Meter
from bench.steady import Sample, steady
from bench.workloads import RECORD_BYTES
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection, ProduceResult
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import OutgoingBatch, iter_batches
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.protocol.fetch import Fetched, FetchedPartition, FetchPartition
from drlib.model import TopicPartition

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KEY_BYTES: Final = 8
_IMAGES: Final = 16  # distinct batches that take turns
_REQUEST_BYTES: Final = 1 << 20
_SAMPLE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """What one process did in all: `records` in `seconds`, and in its steady state: `rate` (1/s) and CPU seconds."""

    records: int
    seconds: float
    rate: float
    cpu_per_record: float
    peak_rss: int


def image(count: int, codec: str, *, keys: Sequence[int], seed: int = 0) -> OutgoingBatch:
    """A batch of `count` records of `RECORD_BYTES`: noise uncompressed, else text that lz4 makes about 2.5 times smaller."""
    rng = random.Random(seed)
    now = int(time.time() * 1000)
    size = RECORD_BYTES - KEY_BYTES
    records = [
        recode.Record(n, now, b"%0*d" % (KEY_BYTES, key), rng.randbytes(size) if codec == "none" else _text(rng, size))
        for n, key in zip(range(count), itertools.cycle(keys), strict=False)
    ]
    return recode.rebuild(records, codec=CODECS[codec], producer_id=-1, producer_epoch=-1, base_sequence=0)


def _text(rng: random.Random, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        out += b'{"flight":%d,"tail":"N%d","origin":"%s","delay":%d,"distance":%d},' % (
            rng.randrange(10**6),
            rng.randrange(10**4),
            rng.choice((b"EWR", b"JFK", b"LGA")),
            rng.randrange(-20, 300),
            rng.randrange(80, 5000),
        )
    return bytes(out[:size])


class _Progress:
    """Samples of this very process."""

    def __init__(self) -> None:
        self._meter = Meter([os.getpid()])
        self.samples = [Sample(time.perf_counter(), 0, self._meter.cpu())]
        self.done = 0

    def add(self, records: int) -> None:
        self.done += records
        now = time.perf_counter()
        if now - self.samples[-1].at >= _SAMPLE_S:
            self.samples.append(Sample(now, self.done, self._meter.cpu()))

    def load(self) -> Load:
        now = time.perf_counter()
        self.samples.append(Sample(now, self.done, self._meter.cpu()))
        seconds = now - self.samples[0].at
        found = steady(self.samples, self.done)
        rate, cpu = (found.rate, found.cpu / found.records) if found else (self.done / seconds, 0.0)
        return Load(self.done, seconds, rate, cpu, self._meter.peak_rss())


async def produce(
    bootstrap: str, topic: str, partitions: int, records: int, batch_records: int, codec: str, window: int
) -> Load:
    """Produce `records` evenly to `partitions`, one batch per partition and request, `window` requests under way."""
    client = ClusterClient(bootstrap.split(","))
    try:
        connection = await leader(client, topic)
        images = [image(batch_records, codec, keys=range(n, 10**6, 97), seed=n) for n in range(_IMAGES)]
        progress = _Progress()
        pending: deque[asyncio.Future[list[ProduceResult]]] = deque()
        at_once = min(partitions, max(1, _REQUEST_BYTES // images[0].size))
        rest = records
        turn = itertools.count()
        partition = 0

        async def settle() -> None:
            for result in await pending.popleft():
                raise_for(result.error_code, f"filling {topic}", result.error_message)
                progress.add(batch_records)

        while rest > 0:
            group = []
            for _ in range(at_once):
                if rest > 0:
                    group.append((partition, images[next(turn) % _IMAGES]))
                    partition = (partition + 1) % partitions
                    rest -= batch_records
            pending.append(connection.produce(topic, group))
            if len(pending) >= window:
                await settle()
            await connection.drain()
        while pending:
            await settle()
        return progress.load()
    finally:
        await client.close()


async def fetch(bootstrap: str, topic: str, partitions: int, window: int, bytes_at_once: int) -> Load:
    """Read the topic from start to end, counting records as a read_committed consumer would.

    With one partition, `window` requests are under way at offsets guessed from the first answer (all batches alike).
    With more, two connections ask for half of the partitions each, one request at a time.
    """
    client = ClusterClient(bootstrap.split(","))
    try:
        connection = await leader(client, topic)
        found = (await client.metadata([topic])).topics[topic]
        wanted = [TopicPartition(topic, p) for p in range(partitions)]
        ends = {k.partition: v for k, v in (await requests.list_offsets(connection, wanted, requests.LATEST)).items()}
        starts = {
            k.partition: v for k, v in (await requests.list_offsets(connection, wanted, requests.EARLIEST)).items()
        }
        progress = _Progress()

        def ask(on: Connection, at: dict[int, int]) -> asyncio.Future[Fetched]:
            return requests.fetch_future(
                on,
                [FetchPartition(topic, found.topic_id, p, o, bytes_at_once) for p, o in at.items()],
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=max(bytes_at_once, 8 << 20),
                read_committed=True,
            )

        async def serial(purpose: str, positions: dict[int, int]) -> None:
            node = next(iter(found.partitions.values())).leader
            mine = await client.connection(node, purpose)
            while positions := {p: o for p, o in positions.items() if o < ends[p]}:
                answers = (await ask(mine, positions)).partitions
                for answer in answers:
                    raise_for(answer.error_code, f"reading {topic}")
                    positions[answer.partition] = _read(answer, positions[answer.partition], progress)

        async def ahead() -> None:
            answers = (await ask(connection, {0: starts[0]})).partitions
            position = _read(answers[0], starts[0], progress)
            step = position - starts[0]
            following = position
            waiting: deque[asyncio.Future[Fetched]] = deque()
            while position < ends[0]:
                while len(waiting) < window and following < ends[0]:
                    waiting.append(ask(connection, {0: following}))
                    following += step
                answers = (await waiting.popleft()).partitions
                before, position = position, _read(answers[0], position, progress)
                if position == before:
                    raise ValueError(f"{topic} is not as regular as it was made: no batch at offset {position}")

        if partitions == 1:
            await ahead()
        else:
            halves = [{p: o for p, o in starts.items() if p % 2 == half} for half in (0, 1)]
            await asyncio.gather(*(serial(f"read-{n}", half) for n, half in enumerate(halves)))
        return progress.load()
    finally:
        await client.close()


def _read(answer: FetchedPartition, position: int, progress: _Progress) -> int:
    """Count the records of an answer; returns the position after it."""
    aborted = AbortedFilter(answer.aborted)
    records = 0
    for header, view in iter_batches(answer.records):
        if aborted.keep(header, view) and header.base_offset >= position:
            records += header.count
        position = max(position, header.next_offset)
    progress.add(records)
    return position


async def leader(client: ClusterClient, topic: str) -> Connection:
    """A connection to the one broker there is."""
    metadata = await client.metadata([topic])
    return await client.connection(metadata.topics[topic].partitions[0].leader, "load")


def main(argv: Sequence[str] | None = None) -> int:
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m bench.wire_load")
    parser.add_argument("what", choices=("produce", "fetch"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--batch-records", type=int, default=15)
    parser.add_argument("--codec", choices=tuple(CODECS), default="none")
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of one fetch of one partition")
    o = parser.parse_args(argv)
    if o.what == "produce":
        work = produce(o.bootstrap, o.topic, o.partitions, o.records, o.batch_records, o.codec, o.window)
    else:
        work = fetch(o.bootstrap, o.topic, o.partitions, o.window, o.bytes)
    print(json.dumps(asdict(uvloop.run(work))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
