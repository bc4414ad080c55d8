"""Folds what later entries of a lane's journal supersede, so that it does not grow with every claim and gap it ever had.

Rules:
- Only claims that recovery has sealed are folded, and never a partition's newest one: its last placement is still needed.
- Chunks and the `Folded` entry that validates them are acknowledged before any entry is deleted. Chunks without their
  `Folded` are ignored; with it, the folded claims' own entries are ignored, deleted or not.
- A chunk that is not full is written again together with what follows, under a new number: it replaces the chunks before
  it from its first record on, deleted or not. So the chunks of a partition are few, however often it is folded.
- An old claim that promised nothing leaves nothing: its placement is deleted. So are the `Claim` entries of a producer
  except its newest, and the leader epochs below `Covered` except the newest, which is the one of the position.
- What an `Expired` covers is deleted: chunks, a `Thinned`, and what was compared below a takeover, at once; facts (losses,
  parks, foreign records) once they are a day old, because status shows them for so long. An `Unsure` claim blocks folding only
  while its uncertain records are not covered. Of what a `Thinned` covers only chunks are deleted.
- Of a topic that neither cluster has any more everything is deleted, its names last (`about_topics`): if it is created again,
  it is another one. Its names stay where MirrorMaker 2 stored an offset of it, which must not be taken for the new one's.
- A partition is folded when it has `at_least` such entries, and all are when these are as many as those that stay. So a
  journal has at most about twice the entries that it needs, and a claim writes on average as many as it adds.
- A partition with an `Unsure` claim is not folded: its bounds are record numbers.
- A partition whose entries contradict each other is left as it is.
- The map of a folded journal equals that of the whole one.
Not for: writing and deleting entries (`drlib.mirror.engine.lane.lane`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    Claim,
    ClaimId,
    Compared,
    Covered,
    Entry,
    Expired,
    Folded,
    Foreign,
    Incarnation,
    Parked,
    PartitionsAtStart,
    Placement,
    Remirrored,
    Run,
    Sealed,
    Shared,
    SharedRelay,
    SourceEpoch,
    SourceLoss,
    SourcePartition,
    Takeover,
    Thinned,
    TopicIdentified,
    TopicNames,
    Unsure,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.segments import MapContradiction, SegmentList
from drlib.model import Segment

SEGMENTS_PER_CHUNK = 2000
FACTS_MS = 86_400_000
MERGED_AT = 4
"""A chunk is merged into the next one if it has at most this many times its segments: of one size there are four at most."""


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
    """Journal entries in the order a map applies them: takeovers, what was dropped, valid chunks, then what is not folded."""
    folded = {e.partition: e for e in entries if isinstance(e, Folded)}
    written: dict[SourcePartition, list[Chunk]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry, Chunk):
            written[entry.partition].append(entry)
    chunks = [chunk for partition in sorted(written) for chunk in _valid(written[partition], folded.get(partition))]
    taken = [e for e in entries if isinstance(e, Takeover)]
    dropped = [e for kind in (Expired, Thinned) for e in entries if isinstance(e, kind)]
    unfolded = [
        e
        for e in entries
        if not isinstance(e, Takeover | Expired | Thinned | Chunk | Folded) and not _is_folded(e, folded)
    ]
    return [*taken, *dropped, *chunks, *unfolded]


def _valid(chunks: Iterable[Chunk], folded: Folded | None) -> list[Chunk]:
    """The chunks of one partition that count, in order."""
    valid: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.number):
        if folded is None or chunk.number >= folded.chunks or not chunk.segments:
            continue
        while valid and valid[-1].segments[0].source >= chunk.segments[0].source:
            valid.pop()
        valid.append(chunk)
    return valid


def fold(entries: Sequence[Entry], at_least: int, now_ms: int = 0) -> Fold:
    """Fold the partitions with `at_least` superseded entries, or all.

    `entries`: a journal, with what recovery found and what expired. Facts of the last day before `now_ms` stay.
    """
    by_partition: dict[SourcePartition, list[Entry]] = defaultdict(list)
    for entry in entries:
        partition = getattr(entry, "partition", None)
        if isinstance(partition, SourcePartition):
            by_partition[partition].append(entry)
    partitions = [_superseded(mine, now_ms) for mine in by_partition.values()]
    claims = _former_claims(entries)
    count = len(claims) + sum(len(partition) for partition in partitions)
    every = count >= max(at_least, len(entries) - count)
    folds: list[Entry] = []
    forget = [claim.key() for claim in claims] if every else []
    for partition in partitions:
        forget += [chunk.key() for chunk in partition.covered]
        if len(partition) and (every or len(partition) >= at_least):
            folds += (written := partition.fold()).entries
            forget += written.forget
    replaced = {entry.key() for entry in folds}  # such as a chunk of a fold that did not get to its end
    return Fold(tuple(folds), tuple(key for key in dict.fromkeys(forget) if key not in replaced))


def about_topics(entries: Sequence[Entry], gone: Collection[UUID], named: Collection[str], now_ms: int) -> list[Entry]:
    """The entries about topics that are gone, by source topic ID; of the source topics `named` all but their names."""
    names: list[Entry] = []
    found: list[Entry] = []
    last: list[Entry] = []  # they say whose entries the others are
    for entry in entries:
        partition = getattr(entry, "partition", None)
        if isinstance(partition, SourcePartition):
            found += [entry] if partition.topic_id in gone else []
        elif isinstance(entry, TopicNames):
            names += [entry] if entry.topic_id in gone and entry.source_topic not in named else []
        elif isinstance(entry, Incarnation) and entry.at_ms < now_ms - FACTS_MS:
            found += [entry] if entry.old_topic_id in gone else []
        elif isinstance(entry, Shared | SharedRelay | PartitionsAtStart):
            found += [entry] if entry.topic_id in gone else []
        elif isinstance(entry, TopicIdentified):
            last += [entry] if entry.real_id in gone else []
    return [*found, *names, *(last if names else ())]


def _former_claims(entries: Sequence[Entry]) -> list[Claim]:
    """`Claim` entries that no reader needs: of a producer only the newest counts, and somewhere the highest generation."""
    claims = [e for e in entries if isinstance(e, Claim)]
    needed = {claim.claim.producer_id: claim for claim in claims}
    highest = max(claims, key=lambda claim: claim.generation, default=None)
    return [c for c in claims if c is not highest and c is not needed[c.claim.producer_id]]


@dataclass(frozen=True, slots=True)
class _Superseded:
    """Entries of one partition, `entries`, that nothing needs once `folded` are in chunks: those, `dropped`, and the
    chunks that `over` covers."""

    entries: Sequence[Entry]
    folded: Sequence[Run | Placement | Ack | Sealed]
    dropped: Sequence[Entry]
    covered: Sequence[Chunk]
    over: Sequence[Expired | Thinned]

    def __len__(self) -> int:
        return len(self.folded) + len(self.dropped)

    def fold(self) -> Fold:
        """The folded claims as chunks behind those that there are."""
        forget = [e.key() for e in (*self.folded, *self.dropped)]
        if not self.folded:
            return Fold((), tuple(forget))
        partition = self.folded[0].partition
        before = {e.partition: e for e in self.entries if isinstance(e, Folded)}
        last = before.get(partition)
        number = last.chunks if last is not None else 0
        offsets = PartitionMap()
        for over in self.over:
            offsets.apply(over)
        try:
            for entry in self.folded:
                if not _is_folded(entry, before):
                    offsets.apply(entry)
        except MapContradiction:
            return Fold((), ())  # the partition has no map, and its entries stay as evidence
        segments: Sequence[Segment] = offsets.segments()
        covered = {chunk.number for chunk in self.covered}
        left = (e for e in self.entries if isinstance(e, Chunk) and e.number not in covered)
        chunks = _valid(left, last) if segments else []
        while chunks and len(chunks[-1].segments) < min(SEGMENTS_PER_CHUNK, MERGED_AT * len(segments) + 1):
            merged = chunks.pop()
            segments = _joined(merged.segments, segments)
            forget.append(merged.key())
        written = [Chunk(partition, number + n, part) for n, part in enumerate(_parts(segments))]
        epochs = {c.producer_id: c.epoch for c in last.claims} if last is not None else {}
        for claim in {entry.claim for entry in self.folded}:
            epochs[claim.producer_id] = max(claim.epoch, epochs.get(claim.producer_id, 0))
        folded = Folded(partition, number + len(written), tuple(ClaimId(p, e) for p, e in sorted(epochs.items())))
        return Fold((*written, folded), tuple(forget))


def _superseded(entries: Sequence[Entry], now_ms: int) -> _Superseded:
    """What of the entries of one partition is superseded."""
    over = next((e for e in reversed(entries) if isinstance(e, Expired)), None)
    thinned = next((e for e in reversed(entries) if isinstance(e, Thinned)), None)
    dropped = [e for e in (over, thinned) if e is not None]
    of_claims = [e for e in entries if isinstance(e, Run | Placement | Ack | Sealed)]
    old = list(dict.fromkeys(e.claim for e in of_claims if isinstance(e, Run | Placement)))[:-1]
    promised = {e.claim for e in of_claims if isinstance(e, Run)}
    folded = {claim for claim in old if claim in promised}
    unsure = [e for e in entries if isinstance(e, Unsure)]
    moot = unsure if unsure and over is not None and not _doubtful(entries) else []
    if len(moot) < len(unsure) or not _foldable(entries, folded):
        folded = set()
    idle = set(old) - promised
    chunks = [e for e in entries if isinstance(e, Chunk)]
    last = next((e for e in reversed(entries) if isinstance(e, Folded)), None)
    valid = {chunk.number for chunk in _valid(chunks, last)}
    covered = max((e.source_offset for e in entries if isinstance(e, Covered)), default=0)
    epochs = [e for e in entries if isinstance(e, SourceEpoch)]
    newest = max((e.epoch for e in epochs if e.source_offset < covered), default=None)
    return _Superseded(
        entries,
        [e for e in of_claims if e.claim in folded],
        [
            *(e for e in of_claims if e.claim in idle),
            *(
                chunk
                for chunk in chunks
                if last is not None and chunk.number < last.chunks and chunk.number not in valid
            ),
            *(e for e in epochs if e.source_offset < covered and e.epoch != newest),
            *moot,
            *(
                e
                for e in entries
                if over is not None and (isinstance(e, Compared) or _is_past(e, over, now_ms - FACTS_MS))
            ),
        ],
        [chunk for chunk in chunks if any(_is_covered(chunk, each) for each in dropped)],
        dropped,
    )


def _is_past(entry: Entry, over: Expired, before_ms: int) -> bool:
    """Is it a fact from before a time, about records that expired?"""
    match entry:
        case SourceLoss():
            return entry.next_offset <= over.source_end and entry.at_ms < before_ms
        case Parked():
            return entry.source_offset < over.source_end and entry.at_ms < before_ms
        case Foreign():
            return entry.target_offset + entry.count <= over.target_end and entry.at_ms < before_ms
        case Thinned():
            return entry.source_end <= over.source_end
        case _:
            return False


def _is_covered(chunk: Chunk, over: Expired | Thinned) -> bool:
    if not chunk.segments:
        return True
    last = chunk.segments[-1]
    return last.source_end <= over.source_end and last.target_end <= over.target_end


def _doubtful(entries: Sequence[Entry]) -> int:
    """How many records of a partition may or may not be on the target."""
    offsets = PartitionMap()
    try:
        for entry in unfold(entries):
            offsets.apply(entry)
    except MapContradiction:
        return 1
    return offsets.doubtful


def _foldable(entries: Sequence[Entry], claims: Collection[ClaimId]) -> bool:
    """Is it known for good what these claims appended, and known without them where mirroring began?"""
    sealed = {e.claim: e.q for e in entries if isinstance(e, Sealed)}
    if not sealed.keys() >= set(claims):
        return False
    # Where nothing was appended, the first promise is the only record of where mirroring began.
    began = any(isinstance(e, Covered | Takeover | Folded | Expired | Thinned) for e in entries)
    return began or any(sealed[claim] for claim in claims)


def _joined(before: Iterable[Segment], after: Iterable[Segment]) -> Sequence[Segment]:
    """Both, expired ones included: the first one tells which chunks this replaces."""
    joined = SegmentList()
    for segment in (*before, *after):
        joined.append(segment.source, segment.target, segment.count)
    return joined


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


@dataclass(frozen=True, slots=True)
class ChunkEnds:
    """The chunks of a lane's journal by partition: key -> where their last stretch ends on the source and on the target."""

    _ends: dict[SourcePartition, dict[bytes, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, entries: Iterable[Entry], forgotten: Collection[bytes]) -> ChunkEnds:
        """Those of a journal's entries that were not deleted."""
        found = cls()
        for entry in entries:
            if isinstance(entry, Chunk) and entry.segments and (key := entry.key()) not in forgotten:
                last = entry.segments[-1]
                found._ends[entry.partition][key] = last.source_end, last.target_end
        return found

    def take_covered(self, dropped: Iterable[Expired | Thinned]) -> list[bytes]:
        """The keys of the chunks that these entries cover; each is returned once."""
        keys: list[bytes] = []
        for each in dropped:
            ends = self._ends.get(each.partition, {})
            covered = [
                k for k, (source, target) in ends.items() if source <= each.source_end and target <= each.target_end
            ]
            for key in covered:
                del ends[key]
            keys += covered
        return keys
