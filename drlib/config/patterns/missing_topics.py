"""Find topics that a file names literally and that do not exist, each with a likely misspelling.

Rules: an entry is literal when its only pattern character is the dot; a pattern that matches nothing is no mistake. A
suggestion is at most two letters away, and at most a quarter of the name.
Not for: patterns (`drlib.config.patterns.selection`).
"""

from collections.abc import Collection, Iterable
from typing import Final

_PATTERN = frozenset("*+?[](){}|^$\\")
MOST_EDITS: Final = 2


def is_literal(entry: str) -> bool:
    return not _PATTERN & set(entry)


def missing_topics(entries: Iterable[str], topics: Collection[str]) -> dict[str, str | None]:
    """Literal entries without a topic of that name, each with the most similar topic (ties: the first by name)."""
    existing = set(topics)
    return {e: _nearest(e, existing) for e in entries if is_literal(e) and e not in existing and e.strip()}


def _nearest(entry: str, topics: Collection[str]) -> str | None:
    allowed = min(MOST_EDITS, len(entry) // 4)
    near = [(distance(entry, t), t) for t in topics if abs(len(t) - len(entry)) <= allowed]
    best = min((candidate for candidate in near if candidate[0] <= allowed), default=None)
    return best[1] if best else None


def distance(one: str, other: str) -> int:
    """The number of letters to insert, delete, replace or transpose (optimal string alignment)."""
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
