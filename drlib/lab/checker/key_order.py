"""Did a group process every key in order? Judged from what its members wrote down, and from nothing else.

Rules: members' histories are merged by the time they wrote; within one history the order of its lines counts. A record
that came again is no disorder, only its first appearance counts. Two members that wrote records of one key within the
same millisecond leave open which came first: that is counted as undecided, neither as order nor as disorder.
Not for: whether anything is missing or came twice (`fan_in`), nor for logs (`checker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drlib.lab.checker.history import Consumed


@dataclass(frozen=True, slots=True)
class Disorder:
    """Record `n` of `key` was processed after record `after`. `place` and `after_place`: topic-partition@offset."""

    key: str
    n: int
    after: int
    place: str
    after_place: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """`keys` and `records` were looked at; `undecided` records could be on either side of another member's."""

    keys: int
    records: int
    violations: tuple[Disorder, ...]
    undecided: int

    @property
    def holds(self) -> bool | None:
        """None when it cannot be told, or when there was nothing to look at."""
        if self.violations:
            return False
        return None if self.undecided or not self.records else True


@dataclass(frozen=True, slots=True)
class _Newest:
    n: int
    member: int
    row: Consumed


def key_order(members: Sequence[Sequence[Consumed]]) -> KeyOrder:
    """The order of one group's records by key; one history for each member, each in the order it was written."""
    merged = sorted(
        ((row.at_ms, member, line, row) for member, rows in enumerate(members) for line, row in enumerate(rows)),
        key=lambda item: item[:3],
    )
    newest: dict[str, _Newest] = {}
    seen: set[str] = set()
    violations: list[Disorder] = []
    undecided = 0
    for at_ms, member, _, row in merged:
        if row.id in seen:
            continue
        seen.add(row.id)
        last = newest.get(row.key)
        if last is None or row.n > last.n:
            if last is not None and last.member != member and last.row.at_ms == at_ms:
                undecided += 1
            newest[row.key] = _Newest(row.n, member, row)
        elif last.member != member and last.row.at_ms == at_ms:
            undecided += 1
        else:
            violations.append(Disorder(row.key, row.n, last.n, place(row), place(last.row), at_ms))
    return KeyOrder(len(newest), len(seen), tuple(violations), undecided)


def place(row: Consumed) -> str:
    """Where a record was read, as topic-partition@offset."""
    return f"{row.topic}-{row.partition}@{row.offset}"
