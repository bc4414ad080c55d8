"""The lane's log of promises on the target: one partition of the journal topic, read whole at a claim, appended to within it.

Rules: entries of one call go in one batch (split only where a batch would be too large); batches are pipelined and each
is awaited before anything relies on it; every answer's offset is checked like any other of ours. Reading happens after
the fence, so nobody of ours can append behind what was read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from drlib.mirror.faults import LaneFault, LaneLost
from drlib.mirror.reading import locate, read_range
from drlib.model import TopicPartition
from drlib.rules.journal import ClaimId, Entry, decode
from drlib.wire import recode, requests
from drlib.wire.batch import SEQUENCE_MODULUS, OutgoingBatch
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import FENCED
from drlib.wire.transport import ConnectionLost

ENTRIES_PER_BATCH = 2000
EARLIEST, LATEST = -2, -1


async def read_journal(target: ClusterClient, partition: TopicPartition) -> list[Entry]:
    """Every entry that stands in a journal partition, oldest first."""
    topic_id, leader = await locate(target, partition)
    connection = await target.connection(leader, "read")
    starts = await requests.list_offsets(connection, [partition], EARLIEST)
    ends = await requests.list_offsets(connection, [partition], LATEST)
    entries: list[Entry] = []
    async for header, view in read_range(connection, topic_id, partition, starts[partition], ends[partition]):
        if header.is_control:
            continue
        for record in recode.records(view):
            if record.key is not None and record.value is not None:
                entries.append(decode(record.key, record.value))
    return entries


@dataclass
class LaneJournal:
    """Appends to one journal partition within one claim."""

    target: ClusterClient
    partition: TopicPartition
    claim: ClaimId
    lane: str
    leader: int
    sequence: int = 0
    _tail: asyncio.Task[None] | None = None

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write `entries` and wait until they are acknowledged by the in-sync replicas.

        Whoever waits may be cancelled; the write goes on, because later ones are numbered behind it.
        """
        await asyncio.shield(self.begin(entries))

    def begin(self, entries: Sequence[Entry]) -> asyncio.Task[None]:
        """Start writing `entries`, in order after those begun before; the task ends when they are acknowledged."""
        now = int(time.time() * 1000)
        batches = []
        for at in range(0, len(entries), ENTRIES_PER_BATCH):
            part = entries[at : at + ENTRIES_PER_BATCH]
            records = [
                recode.Record(offset=i, timestamp=now, key=e.key(), value=e.value(), headers=())
                for i, e in enumerate(part)
            ]
            batches.append(
                recode.rebuild(
                    records,
                    codec=0,
                    producer_id=self.claim.producer_id,
                    producer_epoch=self.claim.epoch,
                    base_sequence=self.sequence,
                )
            )
            self.sequence = (self.sequence + len(part)) % SEQUENCE_MODULUS
        self._tail = asyncio.ensure_future(self._write(batches, self._tail))
        return self._tail

    async def _write(self, batches: Sequence[OutgoingBatch], previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await previous
        try:
            connection = await self.target.connection(self.leader, f"journal-{self.lane}")
            for batch in batches:
                results = await connection.produce(self.partition.topic, [(self.partition.partition, batch)])
                for result in results:
                    if result.error_code in FENCED:
                        raise LaneLost(self.lane, f"the journal refused our epoch (code {result.error_code})")
                    if result.error_code:
                        raise LaneFault(self.lane, f"the journal answered code {result.error_code}")
        except (ConnectionLost, TimeoutError, OSError) as error:
            raise LaneFault(self.lane, f"the journal's broker is gone ({error})") from error
