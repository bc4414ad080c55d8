"""Decides whether a source topic is the one that was mirrored, from its logs, where Kafka gives it no ID (before 2.8).

Rules:
- The records themselves are the proof: where the newest one that both logs still have is the same on both, the log is the one
  that was read. A topic that was re-created has other records, and its leader epochs begin at 0 again.
- Of a log that begins at or beyond the position nothing is left that was read: whatever it is, all of it is copied, once.
- An unclean leader election replaces the end of a log and raises its leader epoch; a re-creation replaces all of it.
- All partitions of a topic were created together: what one of them proves is true of the others. What nothing proves is not
  guessed.
Not for: asking (`evidence`); truncation, which the fetch finds (`drlib.mirror.engine.fetch.fetch_response`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from drlib.kafka.topic_ids import is_made, made_id, next_made_id

Key = TypeVar("Key")


class Verdict(Enum):
    """Of one partition, or of one after its topic was judged."""

    SAME = "the log is the one that was read"
    OPEN = "nothing is left of what was read, so that nothing can be copied twice"
    RECREATED = "the topic was re-created"
    REPLACED = "the topic is the same, but its newest records are others than were mirrored"
    UNKNOWN = "nothing shows whether the topic was re-created"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one source partition. `position`: one past what was read, 0 where nothing was.

    `read_epoch`: the newest leader epoch that was read, `epoch`: the leader's now; -1 where it is not known. `newest` and
    `oldest`: is the newest, or oldest, record below the position that can be compared the one that was mirrored from its
    offset? None where there is none.
    """

    position: int
    log_start: int
    log_end: int
    read_epoch: int = -1
    epoch: int = -1
    newest: bool | None = None
    oldest: bool | None = None


def judge(found: Evidence) -> Verdict:
    """What the log of one partition shows."""
    same_epoch = found.epoch == found.read_epoch >= 0
    empty = found.log_start == found.log_end == 0
    if found.position <= 0:
        return Verdict.OPEN
    if 0 <= found.epoch < found.read_epoch:
        return Verdict.RECREATED
    match found.newest, found.oldest:
        case True, False:
            return Verdict.UNKNOWN
        case True, _:
            return Verdict.SAME
        case False, True:
            return Verdict.REPLACED
        case False, False:
            return Verdict.RECREATED
        case False, None:
            return Verdict.RECREATED if same_epoch else Verdict.UNKNOWN
    if found.log_start >= found.position:
        return Verdict.OPEN
    match found.oldest:
        case True:
            return Verdict.SAME
        case False:
            return Verdict.RECREATED if same_epoch else Verdict.UNKNOWN
    return Verdict.RECREATED if empty and same_epoch else Verdict.UNKNOWN


def judge_topic(partitions: Mapping[Key, Verdict]) -> dict[Key, Verdict]:
    """What is true of each partition of one topic, from what each of them shows."""
    shown = set(partitions.values())
    proven, recreated = bool(shown & {Verdict.SAME, Verdict.REPLACED}), Verdict.RECREATED in shown
    if proven and recreated:
        return dict.fromkeys(partitions, Verdict.UNKNOWN)
    if recreated:
        return dict.fromkeys(partitions, Verdict.RECREATED)
    if proven:
        return {key: each if each is Verdict.REPLACED else Verdict.SAME for key, each in partitions.items()}
    return dict(partitions)


@dataclass(frozen=True, slots=True)
class Identity:
    """The ID under which a topic is journaled. `real`: the one that Kafka gives it now, to be journaled once it is proven to be
    the same topic; `unproven`: its logs have to show that it is."""

    topic_id: uuid.UUID
    real: uuid.UUID | None = None
    unproven: bool = False


def identify(
    cluster_id: str,
    name: str,
    reported: uuid.UUID,
    newest: uuid.UUID | None,
    *,
    void: uuid.UUID | None = None,
    used: Collection[uuid.UUID] = (),
) -> Identity:
    """The identity of a topic. `reported`: its ID in the source's metadata, or what stands for it; `newest`: the one journaled
    last; `void`: the one whose topic is known to be gone; `used`: all that are journaled."""
    if not is_made(reported):
        if newest is None or not is_made(newest) or newest == void:
            return Identity(reported)
        return Identity(newest, real=reported, unproven=True)
    if newest is None:
        return Identity(made_id(cluster_id, name, 1), unproven=True)
    if newest == void:
        return Identity(next_made_id(cluster_id, name, used), unproven=True)
    return Identity(newest, unproven=True)
