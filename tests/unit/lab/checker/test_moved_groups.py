"""Where groups resumed and when applications were served, from literal histories."""

from __future__ import annotations

from dataclasses import replace

from drlib.lab.checker.history import CommitStatus, Committed, Consumed, History, Produced, ProducedStatus, Row
from drlib.lab.checker.moved_groups import ResumedGroup, ServedInterval, resumed_groups, served_intervals
from drlib.model import TopicPartition

T0 = 1_763_769_600_000
FAULT = T0 + 5000


def sent(n: int, *, partition: int = 0, cluster: str = "LEFT", at: int = 0) -> Produced:
    """Record n, at offset 2n: every other offset is a marker's."""
    return Produced(f"{partition}-{n}", "k", n, cluster, "t", partition, 2 * n, T0 + at, T0 + at, ProducedStatus.ACKED)


def had(
    group: str, position: int, at: int, *, partition: int = 0, status: CommitStatus = CommitStatus.ACKED
) -> Committed:
    return Committed(group, "LEFT", "t", partition, position, T0 + at, status)


def read(group: str, n: int, at: int, *, partition: int = 0, topic: str = "LEFT.t", cluster: str = "RIGHT") -> Consumed:
    return Consumed(group, cluster, topic, partition, n + 100, f"{partition}-{n}", "k", n, T0 + at)


def on(*rows: Row) -> dict[str, ResumedGroup]:
    produced = tuple(sent(n, partition=p) for p in (0, 1) for n in range(20))
    history = History(
        produced,
        tuple(row for row in rows if isinstance(row, Consumed)),
        tuple(row for row in rows if isinstance(row, Committed)),
    )
    found = resumed_groups(history, "LEFT", "RIGHT", "t", "LEFT.t", FAULT)
    return {f"{one.group}-{one.partition.partition}": one for one in found}


def test_resumed_groups_compare_last_commit_with_first_read() -> None:
    at = TopicPartition("t", 0)
    exact = on(had("g", 10, 1), *(read("g", n, 6000) for n in range(5, 9)))["g-0"]
    assert exact == ResumedGroup("g", at, 10, 0, 0, read_on=True)
    behind = on(had("g", 10, 1), *(read("g", n, 6000) for n in (3, 4, 4, 5)))["g-0"]
    assert (behind.again, behind.skipped) == (2, 0)  # records, not offsets, and each once
    gone = on(had("g", 10, 1), read("g", 7, 6000))["g-0"]
    assert (gone.again, gone.skipped) == (0, 2)
    nothing = on(had("g", 10, 1))["g-0"]
    assert nothing == ResumedGroup("g", at, 10, None, None, read_on=False)
    stranger = on(had("g", 10, 1), read("g", 77, 6000))["g-0"]
    assert stranger == ResumedGroup("g", at, 10, None, None, read_on=True)


def test_resumed_groups_split_rows_at_the_move() -> None:
    rows = [had("g", 10, 1), had("g", 14, 2, status=CommitStatus.UNKNOWN), had("g", 30, 9000)]
    rows_read = [read("g", 2, 4000), read("g", 5, 6000), read("g", 5, 6000, topic="t")]
    found = on(*rows, *rows_read, had("g", 4, 3, partition=1), read("h", 1, 6000))
    assert set(found) == {"g-0", "g-1"}
    assert (found["g-0"].true, found["g-0"].again) == (10, 0)
    assert found["g-1"].read_on is False


def test_resumed_groups_records_read_on_the_source_and_not_committed_are_read_again() -> None:
    before = [read("g", n, 100 + n, topic="t", cluster="LEFT") for n in range(8)]
    found = on(had("g", 10, 1), *before, *(read("g", n, 6000) for n in range(5, 9)))["g-0"]
    assert (found.true, found.again, found.skipped) == (10, 3, 0)  # 5, 6 and 7


def test_resumed_groups_commit_between_the_fault_and_the_first_read_on_the_target_counts() -> None:
    found = on(had("g", 10, 1), had("g", 14, 5004), read("g", 5, 6000), had("g", 30, 9000))["g-0"]
    assert (found.true, found.again) == (14, 1)


def test_served_intervals_end_at_pause_or_other_cluster() -> None:
    served = [(n, "LEFT") for n in (0, 100, 200, 1000)] + [(1100, "RIGHT"), (1150, "RIGHT")]
    assert served_intervals(reversed(served), 300) == (
        ServedInterval("LEFT", 0, 200, 3),
        ServedInterval("LEFT", 1000, 1000, 1),
        ServedInterval("RIGHT", 1100, 1150, 2),
    )
    assert served_intervals((), 300) == ()
    assert served_intervals([(0, "LEFT"), (300, "LEFT")], 300) == (ServedInterval("LEFT", 0, 300, 2),)
    assert len(served_intervals([(0, "LEFT"), (301, "LEFT")], 300)) == 2


def test_resumed_groups_rows_at_the_very_move_are_before_it() -> None:
    found = on(had("g", 10, 5000), read("g", 4, 5000), read("g", 7, 5001))["g-0"]
    assert (found.true, found.again, found.skipped) == (10, 0, 2)


def test_resumed_groups_count_records_of_the_source_only() -> None:
    """Between the records that LEFT acknowledged there are offsets of what RIGHT did."""
    history = History(
        (*(sent(n) for n in range(20)), *(replace(sent(n + 20, cluster="RIGHT"), offset=2 * n + 1) for n in range(20))),
        (read("g", 7, 6000),),
        (had("g", 10, 1),),
    )
    (found,) = resumed_groups(history, "LEFT", "RIGHT", "t", "LEFT.t", FAULT)
    assert (found.again, found.skipped) == (0, 2)
