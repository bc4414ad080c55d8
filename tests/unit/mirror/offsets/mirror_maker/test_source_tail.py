"""How many records are missing, by what was counted at the source's end."""

from __future__ import annotations

import pytest

from drlib.mirror.offsets.mirror_maker.source_tail import SourceLog, Tail, begins, missing
from drlib.mirror.offsets.mirror_maker.sync_pairs import Pair, SyncedPartition, UsablePairs


def synced(end: int, newest: Pair | None = (100, 110), committed: int | None = None) -> SyncedPartition:
    """The mirror ends at `end`."""
    return SyncedPartition(0, end, UsablePairs(), newest, committed)


@pytest.mark.parametrize(
    ("partition", "log_start", "expected"),
    [
        (synced(111), 0, (101, 101)),
        (synced(111, committed=120), 0, (101, 121)),
        (synced(111, committed=90), 0, (101, 101)),
        (synced(111, committed=120), 110, (110, 121)),  # records behind the sync expired
        (synced(111, committed=120), 300, (300, 300)),
        (synced(111, newest=None, committed=40), 0, (41, 41)),
        (synced(111, newest=None, committed=40), 60, (60, 60)),
    ],
)
def test_begins_behind_the_newest_sync_and_behind_what_was_surely_copied(
    partition: SyncedPartition, log_start: int, expected: tuple[int, int]
) -> None:
    assert begins(partition, SourceLog(log_start, 400, 400)) == expected


@pytest.mark.parametrize(
    ("partition", "tail", "expected"),
    [
        (synced(111), Tail(0, 0, 200), (0, 0)),  # 99 offsets without a record
        (synced(111), Tail(30, 30, 200), (30, 30)),
        (synced(131), Tail(30, 30, 200), (10, 30)),  # 20 of them may be copied
        (synced(150), Tail(30, 30, 200), (0, 30)),
        (synced(131, committed=110), Tail(30, 20, 200), (10, 20)),
        (synced(111, committed=110), Tail(30, 20, 200), (20, 20)),  # never more than at most
        (synced(131), Tail(30, 30, 180), (10, 50)),  # 20 offsets were not read, or are of an open transaction
        (synced(131), Tail(0, 0, 101), (0, 99)),  # nothing was read
        (synced(131, newest=None, committed=150), Tail(30, 30, 200), (0, 30)),  # nothing says what was copied behind it
        (synced(131, committed=150), Tail(5, 0, 106), (0, 49)),  # it was not read as far as what was surely copied
    ],
)
def test_missing_are_records_that_have_no_offset_on_the_mirror(
    partition: SyncedPartition, tail: Tail, expected: tuple[int, int]
) -> None:
    assert missing(partition, SourceLog(0, 200, 200), tail) == expected
