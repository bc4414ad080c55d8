"""Decide which batches of a source are copies that the flow which fills it made, so that they are not copied back.

Rules, for flows that keep topic names in a ring: two of them, each of which is the reverse flow of the other, or more, of which
each reads the topics that the one before it, its incoming flow, writes. Both are called the reverse flow here:
- A batch is a copy if its producer ID belongs to a claim of the reverse flow's lane that has the partition. A cluster gives a
  producer ID once, a lane keeps the one of its transactional ID, and the newest `Claim` of each stays in the journal for good.
  A client that was redirected from another cluster keeps an ID of that one, which may be another lane's.
- A claim is journaled before its first batch is sent. So a producer ID that is not known is looked for in the journal, read
  up to its end as it is then: what is not there was written by a client of the cluster, and always will have been.
- An epoch that is newer than any claim of its producer, a batch in a transaction under a claim's producer ID, and a batch
  outside transactions of a producer for which markers were written, show a journal that lost entries, or a replicator that
  is not the reverse flow. That is not decided: the partition is parked. So is a batch outside transactions of a producer that
  its leader has forgotten, while the journal's leader is another one than when its last entry was written.
- The journal is known by its topic ID. Another one knows nothing of what was copied before.
- Only data is judged: markers are never copied.
- In a ring of more clusters a record has to be copied by all flows but the one that ends where it was written. So a flow copies
  in lanes of their own what was copied before, by how many flows: its relays. Each lane has a producer ID of its own, and so a
  batch shows how many flows have copied its records, whatever the journal has folded since. A relay copies what one journal of
  the incoming flow explains (`Known.relayed`), the flow's own lanes what clients wrote, and what has passed all other
  flows is copied by none.
- What MirrorMaker 2 copied has no producer ID. Below the offset at which the reverse flow took it over a batch is a copy,
  unless that flow's journal has it as the cluster's own (`OwnRecords`): contents decide (`offsets.comparison.own_records`).
- What the reverse flow copied from a topic that is gone is no copy of the one that took its place, which is to have it again.
Not for: reading the journal (`drlib.mirror.engine.reverse.journal`), nor for skipping (`engine.fetch.partition_stream`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from drlib.kafka.protocol.batch import NO_PRODUCER, BatchHeader
from drlib.mirror.journal.entries import Claim, ClaimId, Entry, Folded, Placement
from drlib.mirror.offsets.map.taken_part import within


class Origin(Enum):
    """Who wrote a batch."""

    CLIENT = "a client of the cluster"
    COPY = "the reverse flow"
    UNKNOWN = "not known before the reverse flow's journal is read to its end"
    CONTRADICTION = "a producer that the reverse flow's journal should explain, and does not"


Writer = tuple[int, int, bool]
"""Producer ID, epoch, and whether the batch is part of a transaction."""


def writers(headers: Iterable[BatchHeader]) -> set[Writer]:
    """Who wrote the records in a response; markers and batches without records do not count."""
    return {
        (header.producer_id, header.producer_epoch, header.is_transactional)
        for header in headers
        if header.magic >= 2 and header.count > 0 and not header.is_control and header.producer_id != NO_PRODUCER
    }


def newest_epochs(entries: Iterable[Entry]) -> dict[int, int]:
    """By producer ID: the newest epoch of a claim that a journal knows."""
    newest: dict[int, int] = {}
    for entry in entries:
        if isinstance(entry, Claim | Placement):
            claims: Collection[tuple[int, int]] = [(entry.claim.producer_id, entry.claim.epoch)]
        elif isinstance(entry, Folded):
            claims = [(claim.producer_id, claim.epoch) for claim in entry.claims]
        else:
            continue
        for producer_id, epoch in claims:
            newest[producer_id] = max(epoch, newest.get(producer_id, epoch))
    return newest


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Of a partition that MirrorMaker 2 began: below offset `end` all are copies, but for `own`, (first, end) ascending.

    Of one whose mirror was filled again: below `end`, where the reverse flow began to copy that mirror, none is.
    """

    end: int
    own: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What was read of the reverse flow's journal. `newest`: as `newest_epochs`; `clients`: producer IDs that were looked for
    and are not in it. `taken`: where one partition is judged that MirrorMaker 2 began. `relayed`: the producer IDs whose
    batches a relay copies, and no others; None for a lane that copies what clients wrote."""

    newest: Mapping[int, int]
    clients: Collection[int] = frozenset()
    taken: TakenOver | None = None
    relayed: Collection[int] | None = None

    def origin(self, writer: Writer) -> Origin:
        """Who wrote a batch, as far as it is known without reading further."""
        producer_id, epoch, transactional = writer
        newest = self.newest.get(producer_id)
        if newest is None:
            known = producer_id == NO_PRODUCER or producer_id in self.clients
            return Origin.CLIENT if known else Origin.UNKNOWN
        if epoch > newest:
            return Origin.UNKNOWN
        return Origin.CONTRADICTION if transactional else Origin.COPY

    def is_copy(self, header: BatchHeader) -> bool:
        """Did the reverse flow, or MirrorMaker 2 before it, write the records of a batch whose writer was judged?"""
        if self.taken is not None and header.base_offset < self.taken.end:
            return not within(self.taken.own, header.base_offset)
        return header.producer_id in self.newest and header.magic >= 2

    def leaves_out(self, header: BatchHeader) -> bool:
        """Is a batch whose writer was judged not for this lane to copy?"""
        return self.is_copy(header) if self.relayed is None else header.producer_id not in self.relayed

    def leaves_out_claim(self, claim: ClaimId, offset: int) -> bool:
        """Is nothing that `claim` appends from `offset` on for this lane to copy?"""
        if self.newest.get(claim.producer_id, -1) < claim.epoch:
            return False  # not known yet
        if self.relayed is not None:
            return claim.producer_id not in self.relayed
        return self.taken is None or offset >= self.taken.end

    def judge(self, writer: Writer, *, marked: bool | None, whole: bool) -> Origin:
        """Who wrote a batch that was read before the journal was read to its end; never `UNKNOWN`.

        `marked`: does the partition's leader know of markers that were written for the producer? None where it has forgotten
        the producer. `whole`: is no entry of the journal missing, as far as its log shows?
        """
        found = self.origin(writer)
        if found is not Origin.UNKNOWN:
            return found
        producer_id, _, transactional = writer
        if producer_id in self.newest:
            return Origin.CONTRADICTION
        if transactional:
            return Origin.CLIENT  # lanes never write in transactions
        if marked or (marked is None and not whole):
            return Origin.CONTRADICTION
        return Origin.CLIENT


def contradiction(writer: Writer, known: Known) -> str:
    """Why a batch of `writer` is judged a `CONTRADICTION`."""
    producer_id, epoch, transactional = writer
    newest = known.newest.get(producer_id)
    who = f"producer ID {producer_id}, epoch {epoch}"
    if newest is None:
        return (
            f"{who} may be a lane, and the reverse flow's journal has no claim of it: the journal lost entries, or its leader "
            "changed and it was not written to since, or another replicator writes to the topic"
        )
    if transactional:
        return f"{who} is a lane of the reverse flow, and the batch is part of a transaction, which lanes do not write"
    return f"{who} is newer than the newest claim that the reverse flow's journal has of it, epoch {newest}: it lost entries"


def ready(known: Known, found: Iterable[Writer]) -> bool:
    """Are all of these writers known without reading the journal further?"""
    return all(known.origin(writer) in (Origin.CLIENT, Origin.COPY) for writer in found)
