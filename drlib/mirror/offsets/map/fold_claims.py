"""Folds old claims of a partition into chunks of segments, so that a journal does not grow with every gap it ever crossed.

Rules:
- Only claims that recovery has sealed are folded, and never the newest one: its last placement is still needed.
- Chunks and the `Folded` entry that validates them are acknowledged before any entry is deleted. Chunks without their
  `Folded` are ignored; with it, the folded claims' own entries are ignored, deleted or not.
- A partition with an `Unsure` claim is not folded: its bounds are record numbers.
- The map of a folded journal equals that of the whole one.
Not for: writing and deleting entries (`drlib.mirror.engine.lane.lane`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    ClaimId,
    Covered,
    Entry,
    Folded,
    Placement,
    Remirrored,
    Run,
    Sealed,
    SourcePartition,
    Takeover,
    TopicNames,
    Unsure,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment

SEGMENTS_PER_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Fold:
    """What to journal and, once that is acknowledged, the keys to delete."""

    entries: tuple[Entry, ...]
    forget: tuple[bytes, ...]


def valid_entries(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a journal, oldest first, without those that a later `Remirrored` voids."""
    remirrored = {e.target_topic: index for index, e in enumerate(entries) if isinstance(e, Remirrored)}
    if not remirrored:
        return list(entries)
    targets = {e.topic_id: e.target_topic for e in entries if isinstance(e, TopicNames)}

    def void(index: int, entry: Entry) -> bool:
        partition = getattr(entry, "partition", None)
        topic_id = partition.topic_id if isinstance(partition, SourcePartition) else getattr(entry, "topic_id", None)
        return topic_id is not None and index < remirrored.get(targets.get(topic_id, ""), 0)

    return [entry for index, entry in enumerate(entries) if not void(index, entry)]


def unfold(entries: Sequence[Entry]) -> list[Entry]:
    """Journal entries in the order a map applies them: takeovers, valid chunks, then everything that is not folded."""
    folded = {e.partition: e for e in entries if isinstance(e, Folded)}
    chunks = [
        e for e in entries if isinstance(e, Chunk) and e.partition in folded and e.number < folded[e.partition].chunks
    ]
    taken = [e for e in entries if isinstance(e, Takeover)]
    unfolded = [e for e in entries if not isinstance(e, Takeover | Chunk | Folded) and not _is_folded(e, folded)]
    return [*taken, *sorted(chunks, key=lambda c: (c.partition, c.number)), *unfolded]


def fold(entries: Sequence[Entry], at_least: int) -> Fold:
    """Fold the partitions whose old claims have `at_least` entries. `entries`: a journal, findings of recovery included."""
    by_partition: dict[SourcePartition, list[Entry]] = defaultdict(list)
    for entry in entries:
        partition = getattr(entry, "partition", None)
        if isinstance(partition, SourcePartition):
            by_partition[partition].append(entry)
    folds: list[Entry] = []
    forget: list[bytes] = []
    for partition, mine in by_partition.items():
        folded = _fold(partition, mine, at_least)
        if folded is not None:
            folds += folded.entries
            forget += folded.forget
    return Fold(tuple(folds), tuple(forget))


def _fold(partition: SourcePartition, entries: Sequence[Entry], at_least: int) -> Fold | None:
    before = {e.partition: e for e in entries if isinstance(e, Folded)}
    claims = list(dict.fromkeys(e.claim for e in entries if isinstance(e, Run | Placement)))
    sealed = {e.claim for e in entries if isinstance(e, Sealed)}
    promised = {e.claim for e in entries if isinstance(e, Run)}
    old = set(claims[:-1])
    if any(isinstance(e, Unsure) for e in entries) or any(c in promised and c not in sealed for c in old):
        return None
    spent = [e for e in entries if isinstance(e, Run | Placement | Ack | Sealed) and e.claim in old]
    if len(spent) < at_least:
        return None
    offsets = PartitionMap()
    for entry in spent:
        if not _is_folded(entry, before):
            offsets.apply(entry)
    segments = offsets.segments()
    last = before.get(partition)
    number = last.chunks if last is not None else 0
    if not segments and not number and not any(isinstance(e, Covered | Takeover) for e in entries):
        return None  # the first promise is the only record of where mirroring began
    chunks = [Chunk(partition, number + n, part) for n, part in enumerate(_parts(segments))]
    epochs = {c.producer_id: c.epoch for c in last.claims} if last is not None else {}
    for claim in old:
        epochs[claim.producer_id] = max(claim.epoch, epochs.get(claim.producer_id, 0))
    folded = Folded(partition, number + len(chunks), tuple(ClaimId(p, e) for p, e in sorted(epochs.items())))
    return Fold((*chunks, folded), tuple({e.key(): None for e in spent}))


def _parts(segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
    for at in range(0, len(segments), SEGMENTS_PER_CHUNK):
        yield tuple(segments[at : at + SEGMENTS_PER_CHUNK])


def _is_folded(entry: Entry, folded: Mapping[SourcePartition, Folded]) -> bool:
    if not isinstance(entry, Run | Placement | Ack | Sealed) or entry.partition not in folded:
        return False
    return covers(folded[entry.partition].claims, entry.claim)


def covers(claims: Iterable[ClaimId], claim: ClaimId) -> bool:
    """Is `claim` among the folded `claims`, which are the newest of each producer?"""
    return any(c.producer_id == claim.producer_id and claim.epoch <= c.epoch for c in claims)
