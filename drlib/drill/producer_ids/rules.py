"""Find producer IDs that two clusters have given to different producers of one topic, and say what follows. Pure.

A producer that is redirected to another cluster keeps the producer ID, epoch and sequence numbers of the former one. The
leader of the partition there judges its batches by what it knows of that ID.

Rules:
- Same ID, same epoch: a batch with the first and last sequence of one of the last five of that ID is taken for a retry. It is
  acknowledged and not written. This can hit the redirected producer and the one that is there.
- Same ID, a lower epoch: INVALID_PRODUCER_EPOCH. Same ID, a higher epoch: OUT_OF_ORDER_SEQUENCE_NUMBER, except at sequence 0,
  after which the producer that is there is refused for its lower epoch. Nothing is lost without an error.
- A producer with transactions is no collision where the other one has none, or another transactional ID: its coordinator there
  refuses it before it writes (INVALID_PRODUCER_ID_MAPPING). An unknown transactional ID may be the same one. (With transaction
  version 2 an idempotent producer that is there may be refused once then; nothing is lost.)
- The names of topics are those that producers use: a mirror's lanes count where mirror topics keep their names.
- A redirected producer may write to a partition that it did not write to before. It begins at sequence 0 there, as the other
  did, so that the first records of both are taken for each other. So producers of one topic collide, in whichever partitions.
- Brokers know a producer for a day after its last record, so that one that has ended counts as one that may be redirected.
Source: Kafka's ProducerAppendInfo.checkProducerEpoch and checkSequence, ProducerStateEntry.findDuplicateBatch (at most
NUM_BATCHES_TO_RETAIN), TransactionCoordinator.handleAddPartitionsToTransaction.
Not for: asking clusters (`observe`), whether producers are redirected at all (`drlib.producers.redirected`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from drlib.mirror.source_producers.leaders import Known
from drlib.model import TopicPartition


class Effect(StrEnum):
    """What the leader on the target does with batches of the redirected producer."""

    LOST = "records can be acknowledged and not written"
    REFUSED = "it is refused there with INVALID_PRODUCER_EPOCH"
    FENCES = "it is refused there with OUT_OF_ORDER_SEQUENCE_NUMBER, or fences the producer that is there"


@dataclass(frozen=True, slots=True)
class Collision:
    """One producer ID and its epochs on both clusters. `source_ms`, `target_ms`: when each wrote last, as Kafka timestamps.

    `owner` is the transactional ID on the target, "" where it has none or it is not known.
    """

    producer_id: int
    source_epoch: int
    target_epoch: int
    partitions: tuple[TopicPartition, ...]
    source_ms: int
    target_ms: int
    owner: str = ""

    @property
    def effect(self) -> Effect:
        if self.source_epoch == self.target_epoch:
            return Effect.LOST
        return Effect.REFUSED if self.source_epoch < self.target_epoch else Effect.FENCES


@dataclass(frozen=True, slots=True)
class AsKept:
    """The source was not asked: its producers are those that the mirror kept. Times in ms since the epoch.

    `asked_ms`: when its leaders named theirs last, 0 for never; `copied_ms`: up to when those of copied records are known;
    `why` the source was not asked.
    """

    asked_ms: int
    copied_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class ComparedIds:
    """What was compared: partitions of the source, and its producers there. `missing`: partitions and why not; `as_kept`: where
    the source, or a part of it, was not asked."""

    partitions: int
    producers: int
    collisions: tuple[Collision, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    as_kept: AsKept | None = None


def find_collisions(source: Iterable[Known], target: Iterable[Known]) -> tuple[Collision, ...]:
    """Those that can lose records first, then by producer ID. Their partitions are those of the producer on the target."""
    by_partition: dict[tuple[TopicPartition, int], Known] = {}
    by_topic: dict[tuple[str, int], list[Known]] = {}
    for here in source:
        by_partition[here.partition, here.state.producer_id] = here
        by_topic.setdefault((here.partition.topic, here.state.producer_id), []).append(here)
    found: dict[tuple[int, int, int, str], list[tuple[Known, Known]]] = {}
    for other in target:
        same = by_partition.get((other.partition, other.state.producer_id))
        nearest = by_topic.get((other.partition.topic, other.state.producer_id), []) if same is None else [same]
        for here in nearest:
            if _reaches_the_log(here, other):
                key = (here.state.producer_id, here.state.epoch, other.state.epoch, other.name)
                found.setdefault(key, []).append((here, other))
    collisions = [
        Collision(
            producer_id,
            source_epoch,
            target_epoch,
            tuple(sorted({other.partition for _, other in pairs})),
            max(here.state.last_timestamp for here, _ in pairs),
            max(other.state.last_timestamp for _, other in pairs),
            owner,
        )
        for (producer_id, source_epoch, target_epoch, owner), pairs in found.items()
    ]
    return tuple(sorted(collisions, key=lambda each: (each.effect is not Effect.LOST, each.producer_id, each.owner)))


def _reaches_the_log(here: Known, other: Known) -> bool:
    """May a batch of `here` get past the transaction coordinator of the target?"""
    if not here.state.transactional and not here.name:
        return True
    if not other.state.transactional and not other.name:
        return False
    return not (here.name and other.name) or here.name == other.name
