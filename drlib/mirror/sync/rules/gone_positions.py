"""Decide which positions of the source's groups are gone: deleted, expired, or of a group that no longer exists.

Rules:
- A position is gone when its deletion was read in `__consumer_offsets` and its coordinator, asked after that, has none.
- A position of the log of checkpoints that this worker has not seen on the source (it went while no worker ran) is gone when
  its coordinator has none and it was last known `OLD_MS` ago. A source that lost its disks answers that it has no positions as
  well, and wrote no deletions: its groups are to be moved. So without a position of any group nothing is gone by age.
- A missing right, an error, and a topic that does not exist or may not be described leave it open: a coordinator leaves out
  what may not be seen, and a deleted topic takes its positions along, whose records the mirror still has.
- A list of groups does not count: a group is missing there while its coordinator moves.
Not for: asking the source and writing checkpoints (`drlib.mirror.sync.source_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.config.replication_policy import ReplicationPolicy
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.mm2.checkpoint_log import checkpoints
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import GONE_HEADER, SHARE_HEADER, TOPICS_HEADER
from drlib.model import TopicPartition

OLD_MS: Final = 7 * 24 * 3600 * 1000  # `offsets.retention.minutes` of Kafka, unless set
KEPT_MS: Final = 600_000  # a deletion in a partition of another worker, which may end before it has written it

Key = tuple[str, TopicPartition]  # a group, and a partition of the source


@dataclass(frozen=True, slots=True)
class Kept:
    """A position on the source as it was last known, and its checkpoint; None where this worker knows of none."""

    offset: int
    as_of_ms: int
    checkpoint: Checkpoint | None = None
    topic_ids: str = ""


@dataclass(frozen=True, slots=True)
class _Deleted:
    kept: Kept
    read_ms: int


def checkpointed(
    records: Iterable[Record], policy: ReplicationPolicy, mirrors_group: Callable[[str], bool]
) -> dict[Key, Kept]:
    """The positions of consumer groups in a log of checkpoints that are not marked as gone there. Pure."""
    found: dict[Key, Kept] = {}
    for each in checkpoints(records, policy):
        if SHARE_HEADER in each.headers or GONE_HEADER in each.headers or not mirrors_group(each.checkpoint.group):
            found.pop(each.key, None)
            continue
        ids = each.headers.get(TOPICS_HEADER, b"").decode("ascii", "replace")
        found[each.key] = Kept(each.position, each.as_of_ms, each.checkpoint, ids)
    return found


class GonePositions:
    """What is known of positions that may be gone. A round: `doubtful`, the source is asked, what it has is `there`, `gone`."""

    def __init__(self) -> None:
        self._deleted: dict[Key, _Deleted] = {}
        self._checkpointed: dict[Key, Kept] = {}  # of the log, and not seen on the source by this worker
        self._asked: dict[Key, Kept] = {}
        self._open: set[Key] = set()  # an answer of the source has left it open

    def deleted(self, key: Key, kept: Kept | None, now_ms: int) -> None:
        """Its deletion was read. `kept`: None where this worker has not seen it on the source."""
        before = self._deleted.get(key)
        kept = kept or (self._checkpointed.get(key) if before is None else before.kept)
        self.there(key)
        if kept is not None:
            self._deleted[key] = _Deleted(kept, now_ms)

    def there(self, key: Key) -> None:
        """The source has it, or its end is written."""
        for known in (self._deleted, self._checkpointed, self._asked):
            known.pop(key, None)
        self._open.discard(key)

    def outdates(self, key: Key, asked_ms: int) -> bool:
        """Was its deletion read after the source was asked for it?"""
        deleted = self._deleted.get(key)
        return deleted is not None and deleted.read_ms >= asked_ms

    def add(self, found: Mapping[Key, Kept], known: Collection[Key]) -> None:
        """What the log of checkpoints has. `known`: what this worker has seen on the source."""
        self._checkpointed |= {
            key: kept for key, kept in found.items() if key not in known and key not in self._deleted
        }

    def doubtful(self, mirrored: Callable[[TopicPartition], bool], now_ms: int) -> frozenset[Key]:
        """Those to ask the source for. `mirrored`: is a partition one of this worker's?"""
        self._deleted = {
            key: each
            for key, each in self._deleted.items()
            if now_ms - each.read_ms < KEPT_MS or (key not in self._open and mirrored(key[1]))
        }
        old = {
            key: kept
            for key, kept in self._checkpointed.items()
            if now_ms - kept.as_of_ms > OLD_MS and key not in self._open
        }
        asked = old | {key: each.kept for key, each in self._deleted.items()}
        self._asked = {key: kept for key, kept in asked.items() if mirrored(key[1])}
        return frozenset(self._asked)

    def gone(
        self, found: Collection[Key], answered: Collection[str], refused: Collection[str], topics: Collection[str]
    ) -> dict[Key, Kept]:
        """Those that were asked for and not `found`. `answered`: the groups whose coordinators said what they have; `topics`:
        those that the source has, and that may be described."""
        gone = {}
        for key, kept in self._asked.items():
            group, partition = key
            if key in found:
                continue
            if group in answered and partition.topic in topics:
                if found or key in self._deleted:
                    gone[key] = kept
            elif group in answered or group in refused:
                self._open.add(key)
        return gone
