"""Decides which transactions of a source are in part once it serves, or came back: what was not copied can be looked at then.

Rules: a partition without anything that was not copied has all of each transaction. What was recovered of a tail counts as on
the target; what is in quarantine, and what was left on the source, does not. Of transactions that the mirror never read some
partitions may have been recovered and others not: these others are named.
Not for: a source that is lost (`rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from drlib.mirror.transactions.rules import (
    OPEN_WHY,
    UNKNOWN_WHY,
    Decision,
    FoundTransaction,
    State,
    Verdict,
    judged,
)
from drlib.model import TopicPartition


class Tail(StrEnum):
    """Where the records of a source partition are that were not copied, once the source came back."""

    RECOVERED = "recovered"  # on the target, in the topic of its applications
    QUARANTINED = "in quarantine"  # some of them at least
    LEFT = "on the source"


def all_complete(decision: Decision) -> Decision:
    """What is decided where all of the source is on the target: nothing is there in part, and nothing is left to determine."""
    whole = tuple(replace(each, verdict=Verdict.COMPLETE, why="") for each in decision.transactions)
    return replace(decision, transactions=whole, older=())


def with_tail(decision: Decision, tail: Mapping[TopicPartition, Tail]) -> Decision:
    """`decision` once the source came back, with the `tail` of its partitions: those that have none are all on the target."""
    lacking = {partition for partition, where in tail.items() if where is not Tail.RECOVERED}
    if not lacking:
        return all_complete(decision)
    every = [_with_tail(each, tail) for each in (*decision.transactions, *decision.absent)]
    is_mixed = len(lacking) < len(tail)
    return Decision(
        tuple(each for each in every if each.verdict is not Verdict.ABSENT),
        tuple(each for each in every if each.verdict is Verdict.ABSENT),
        tuple(partition for partition in decision.older if partition in lacking),
        tuple(sorted(lacking)) if is_mixed else (),
    )


def _with_tail(found: FoundTransaction, tail: Mapping[TopicPartition, Tail]) -> FoundTransaction:
    parts = []
    for part in found.parts:
        rest = tail.get(part.partition, Tail.RECOVERED)
        if part.state is State.WHOLE:
            parts.append(part)
        elif rest is Tail.RECOVERED:
            parts.append(replace(part, state=State.RECOVERED, rest=rest))
        else:
            parts.append(replace(part, rest=rest))
    why = "" if found.why in (OPEN_WHY, UNKNOWN_WHY) else found.why
    is_named = bool(found.transactional_id) or found.verdict is Verdict.PARTIAL
    return judged(replace(found, verdict=Verdict.COMPLETE, parts=tuple(parts), why=why), is_named=is_named)
