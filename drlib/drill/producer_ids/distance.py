"""How far the producer IDs of two clusters are apart, and up to where those of one have to be used up. Pure.

Rules:
- A cluster gives out IDs in ascending order, each broker from a block of its own. Where every broker of one is ahead of all of
  the other, their producers never meet until the other one has given out as many as lie between: in a failback as well.
- Producers that a cluster has already keep their IDs, until they begin again: these may meet others (`rules`).
Not for: asking for IDs (`separate`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COUNT: Final = 1_000_000
LEAST: Final = 1_000  # IDs of a block
MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class NextIds:
    """The producer ID that each broker of a cluster gave out last."""

    alias: str
    by_broker: Mapping[int, int]

    @property
    def oldest(self) -> int:
        return min(self.by_broker.values())

    @property
    def newest(self) -> int:
        return max(self.by_broker.values())


def between(one: NextIds, other: NextIds) -> int:
    """How many IDs one cluster has to give out until both give the same; below 0 while brokers of both are among each other."""
    low, high = sorted((one, other), key=lambda each: (each.newest, each.oldest))
    return high.oldest - low.newest


def goal(source: NextIds, target: NextIds, count: int) -> int | None:
    """Up to which ID the target's are to be used up, to be `count` ahead; None where they are apart, whichever is ahead.

    Half of it is apart: IDs are given out all the time.
    """
    return None if between(source, target) >= count // 2 else source.newest + count
