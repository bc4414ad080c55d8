"""Whether a group processed every key in order, from the histories of its members alone.

Rules: members' histories are merged by their timestamps; within one history the order of its lines counts. Only the first
appearance of a record counts, as a repeated one is a duplicate and no disorder. When two members wrote records of one key
within the same millisecond, their order is not known: such records are counted as undecided.
Not for: whether records are missing or came twice (`completeness`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drlib.lab.checker.history import Consumed, Mirrored

Keyed = TypeVar("Keyed", bound=Consumed | Mirrored)


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
    """Counts of `keys` and `records` compared; `undecided` records may be before or after another member's."""

    keys: int
    records: int
    violations: tuple[Disorder, ...]
    undecided: int

    @property
    def holds(self) -> bool | None:
        """None when records are undecided, or when there were none."""
        if self.violations:
            return False
        return None if self.undecided or not self.records else True


@dataclass(frozen=True, slots=True)
class _Newest:
    n: int
    member: int
    row: Consumed


def key_order(members: Sequence[Sequence[Consumed]]) -> KeyOrder:
    """The order of one group's records by key; one history for each member, in the order it was written."""
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


def disordered(rows: Iterable[Keyed]) -> Iterator[tuple[Keyed, int]]:
    """The records of one log or history that come after a later one of their key, each with that one's number.

    Only the first appearance of an id counts; records without an id are passed over.
    """
    seen: set[str] = set()
    newest: dict[str, int] = {}
    for row in rows:
        if not row.id or row.id in seen:
            continue
        seen.add(row.id)
        after = newest.get(row.key, -1)
        if row.n < after:
            yield row, after
        newest[row.key] = max(after, row.n)


def place(row: Consumed | Mirrored) -> str:
    """A record's place, as topic-partition@offset."""
    return f"{row.topic}-{row.partition}@{row.offset}"
