"""Which replica a partition is read from where `client.rack` is set, and what a follower's answer counts for (KIP-392).

Rules:
- The leader is asked with the rack, by a small Fetch request beside the others, which replica to read. All other requests
  have no rack: a leader always answers them with records, whichever replica it would name.
- Of a follower's answer only records count. Its log ends before the leader's and may begin elsewhere, it may not know the
  topic or the epoch yet, and its disk is its own: an answer that would lead to a decision about loss, truncation, damage,
  deletion or rights sends the partition back to its leader, whose answer at the same position decides.
- While a partition is read from a follower, its leader is asked every second: the answer says where the log begins and ends
  (lag, retention, open transactions) and whether it still names that follower, which has to be in sync for it.
- A follower is left that is gone, silent, refuses, or returns nothing while the leader has more; it is not read again for
  `AVOID_S`. A partition moves to a follower only once that has answered on the connections to be used.
Source: KIP-392; `SubscriptionState.updatePreferredReadReplica`, `FetchCollector.handleInitializeErrors` and
`ReplicaManager.findPreferredReadReplica` of Kafka, whose consumer keeps a follower for metadata.max.age.ms without asking.
Not for: requests and readers (`fetcher`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.kafka.protocol.error_codes import NONE
from drlib.kafka.protocol.fetch import FetchedPartition

ASK_S: Final = 1.0  # between two questions about a partition that is read from a follower
LEASE_S: Final = 60.0  # until a leader that named no follower is asked again
AVOID_S: Final = 30.0  # replica.lag.time.max.ms of brokers: by then a leader names no follower that is gone
SILENT_S: Final = 2.0  # without a byte of an answer that is due
BEHIND_S: Final = 5.0  # without progress while the leader has more


def leader_decides(answer: FetchedPartition) -> bool:
    """Must the leader be asked at the same position instead? Of a follower's answer only records count."""
    return answer.error_code != NONE or answer.diverging_epoch is not None


@dataclass(slots=True)
class ReplicaChoice:
    """Where one partition is read. Times in seconds on one monotonic clock, brokers as node IDs."""

    leader: int
    node: int  # read now; the leader at first
    ask_at: float = 0.0
    avoided: dict[int, float] = field(default_factory=dict)  # followers that failed, each until when
    position: int = -1  # where the follower's last progress was seen
    progress_at: float = 0.0

    @property
    def at_follower(self) -> bool:
        return self.node != self.leader

    def answered(self, answer: FetchedPartition, now: float, *, ready: Mapping[int, object]) -> int:
        """The broker to read from after the leader's `answer` to a question with the rack; sets when to ask next.

        It may be one that is not yet `ready` to be read: until then nothing moves.
        """
        named = answer.preferred_read_replica
        self.avoided = {node: until for node, until in self.avoided.items() if until > now}
        usable = not leader_decides(answer) and named >= 0 and named not in self.avoided
        wanted = named if usable else self.leader
        if wanted == self.leader:
            self.ask_at = min(now + LEASE_S, self.avoided.get(named, now + LEASE_S))
        else:
            self.ask_at = now + ASK_S
        if wanted == self.leader or wanted in ready:
            self._read(wanted, now)
        return wanted

    def failed(self, now: float) -> None:
        """Go back to the leader: the follower is of no use for `AVOID_S`."""
        self.avoid(self.node, now)
        self.ask_at = now + AVOID_S
        self._read(self.leader, now)

    def avoid(self, node: int, now: float) -> None:
        """Read nothing from this follower for `AVOID_S`."""
        self.avoided[node] = now + AVOID_S

    def _read(self, node: int, now: float) -> None:
        if node != self.node:
            self.node, self.position, self.progress_at = node, -1, now

    def is_behind(self, position: int, end: int, now: float, *, held_up: bool) -> bool:
        """Has the follower returned nothing new for `BEHIND_S` below the leader's `end`?

        `held_up`: nothing more is requested at the moment, because the target or this worker's memory is the limit.
        """
        if held_up or position >= end or position != self.position:
            self.position, self.progress_at = position, now
        return self.at_follower and now - self.progress_at > BEHIND_S
