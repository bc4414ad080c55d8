"""Topics that a file names one by one and that are not there: found, and the likely slip of the pen with them.

Rules: an entry is literal when it has none of Java's pattern characters but the dot; a pattern that matches nothing is
nobody's mistake. A suggestion is at most two letters away, and no more than a quarter of the name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

_PATTERN = frozenset("*+?[](){}|^$\\")
SLIP = 2


def is_literal(entry: str) -> bool:
    return not _PATTERN & set(entry)


def missing_topics(entries: Iterable[str], topics: Collection[str]) -> dict[str, str | None]:
    """Literal entries that no topic bears, each with the topic that may be meant (the nearest, then the first)."""
    there = set(topics)
    return {e: _nearest(e, there) for e in entries if is_literal(e) and e not in there and e.strip()}


def _nearest(entry: str, topics: Collection[str]) -> str | None:
    allowed = min(SLIP, len(entry) // 4)
    near = [(distance(entry, t), t) for t in topics if abs(len(t) - len(entry)) <= allowed]
    best = min((found for found in near if found[0] <= allowed), default=None)
    return best[1] if best else None


def distance(one: str, other: str) -> int:
    """Letters to insert, drop, replace or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]
