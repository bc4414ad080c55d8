"""Did a group see every record there is, each once? For groups that read the topics of several clusters on one of them.

Rules: what is due is what the producers were told is acknowledged, wherever they wrote it; a record is the `id` its
producer gave it. What was processed and was never sent is counted too: a copy of something nobody wrote would show there.
Not for: order (`key_order`), and whether the logs themselves are right (`checker`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drlib.lab.checker.history import Consumed, Produced, ProducedStatus


@dataclass(frozen=True, slots=True)
class FanIn:
    """Records: `due` acknowledged anywhere, `processed` by the group; `missing` and `doubled` name the first few."""

    due: int
    processed: int
    by_topic: Mapping[str, int]
    missing_count: int
    missing: tuple[str, ...]
    doubled_count: int
    doubled: tuple[str, ...]
    unsent_count: int

    @property
    def whole(self) -> bool:
        """Each once, and nothing else; a group for which nothing was due has proven nothing."""
        return bool(self.due) and not (self.missing_count or self.doubled_count or self.unsent_count)

    def told(self) -> str:
        """In one sentence, with the first few of what is wrong."""
        missing = f" ({', '.join(self.missing)})" if self.missing else ""
        doubled = f" ({', '.join(self.doubled)})" if self.doubled else ""
        return (
            f"{self.processed} of {self.due} processed, {self.missing_count} missing{missing}, "
            f"{self.doubled_count} twice{doubled}, {self.unsent_count} nobody sent"
        )


EXAMPLES = 5


def fan_in(produced: Iterable[Produced], consumed: Iterable[Consumed]) -> FanIn:
    """Compare what was acknowledged anywhere with what one group processed."""
    sent: set[str] = set()
    acked: dict[str, None] = {}  # in the order they were acknowledged, so that examples are the first ones
    for row in produced:
        sent.add(row.id)
        if row.status is ProducedStatus.ACKED:
            acked[row.id] = None
    times: Counter[str] = Counter()
    by_topic: Counter[str] = Counter()
    for record in consumed:
        times[record.id] += 1
        by_topic[record.topic] += 1
    missing = [name for name in acked if not times[name]]
    doubled = [name for name, count in times.items() if count > 1]
    unsent = sum(name not in sent for name in times)
    return FanIn(
        due=len(acked),
        processed=sum(times.values()),
        by_topic=dict(by_topic),
        missing_count=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        doubled_count=len(doubled),
        doubled=tuple(doubled[:EXAMPLES]),
        unsent_count=unsent,
    )
