"""Whether a group processed every record once: for groups that read the topics of several clusters on one of them.

Rules: every record that a producer had acknowledged is due, on whatever cluster; a record is identified by the `id` its
producer gave it. Processed records that were never sent are counted: they would be copies of records that nothing wrote.
Not for: order (`key_order`), and whether the logs themselves are right (`failover`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drlib.lab.checker.history import Consumed, Produced, ProducedStatus

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Completeness:
    """Counts of records: `due` acknowledged on any cluster, `processed` by the group.

    `missing` and `doubled` are the ids of the first few; `unsent_count` were processed and never produced.
    """

    due: int
    processed: int
    by_topic: Mapping[str, int]
    missing_count: int
    missing: tuple[str, ...]
    doubled_count: int
    doubled: tuple[str, ...]
    unsent_count: int

    @property
    def complete(self) -> bool:
        """Every due record once, and no other; a group for which nothing was due proves nothing."""
        return bool(self.due) and not (self.missing_count or self.doubled_count or self.unsent_count)

    def summary(self) -> str:
        """The counts in one sentence, with the first few ids of what is wrong."""
        missing = f" ({', '.join(self.missing)})" if self.missing else ""
        doubled = f" ({', '.join(self.doubled)})" if self.doubled else ""
        return (
            f"{self.processed} of {self.due} processed, {self.missing_count} missing{missing}, "
            f"{self.doubled_count} twice{doubled}, {self.unsent_count} never sent"
        )


def check_completeness(produced: Iterable[Produced], consumed: Iterable[Consumed]) -> Completeness:
    """Compare the records acknowledged on any cluster with those that one group processed."""
    sent: set[str] = set()
    acked: dict[str, None] = {}  # in the order of their acknowledgement, so that examples are the first ones
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
    return Completeness(
        due=len(acked),
        processed=sum(times.values()),
        by_topic=dict(by_topic),
        missing_count=len(missing),
        missing=tuple(missing[:EXAMPLES]),
        doubled_count=len(doubled),
        doubled=tuple(doubled[:EXAMPLES]),
        unsent_count=sum(name not in sent for name in times),
    )
