"""What counts as a map of a topic that both directions copy, and what a position is without one."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from two_logs import built

from drlib.errors import DrlibError, NoLeader
from drlib.mirror.journal.entries import SourceLoss, SourcePartition, SourceTruncated, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_logs import KnownRead, SharedAnswer, SharedLogs, translate_shared
from drlib.mirror.read_batches import LogBounds
from drlib.model import TopicPartition, Translation, TranslationKind

HERE, THERE, JOURNAL = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)
ASKED = TopicPartition("t", 0)
KEY, BACK_KEY = SourcePartition(HERE, 0), SourcePartition(THERE, 0)
BOUNDS = LogBounds({ASKED: 0}, {ASKED: 0}, {ASKED: 10}, {"t": THERE})
EXACT, UNKNOWN, NEVER = TranslationKind.EXACT, TranslationKind.UNKNOWN, TranslationKind.NEVER_MIRRORED
UNREAD = "the journal lies on LEFT, which does not answer"


def there() -> Maps:
    """Ten records of the source, all of the target's log."""
    maps = Maps(journal_id=uuid.UUID(int=9), reverse_journals={HERE: JOURNAL})
    maps.names[HERE] = TopicNames(HERE, "t", "t", THERE)
    maps.by_partition[KEY] = built([(n, n) for n in range(10)], 10)
    return maps


def back() -> Maps:
    """Nothing was copied back, and all was read."""
    maps = Maps(journal_id=JOURNAL)
    maps.names[THERE] = TopicNames(THERE, "t", "t", HERE)
    maps.by_partition[BACK_KEY] = built([], 10)
    return maps


async def answer(logs: SharedLogs, position: int = 4) -> SharedAnswer:
    """Nothing is read of the target's log: the flow wrote all of it."""
    unused: Any = None
    return (await logs.answer(unused, [(ASKED, position, 0)]))[ASKED, position, 0]


async def test_both_maps_and_the_flows_own_alone_are_exact_where_all_of_the_target_is_copies() -> None:
    assert await answer(SharedLogs(there(), back(), BOUNDS)) == SharedAnswer(Translation(4, EXACT), True, "")
    assert await answer(SharedLogs(there(), UNREAD, BOUNDS)) == SharedAnswer(Translation(4, EXACT), False, "")


@pytest.mark.parametrize("wrong", ["journal", "no entry", "another topic", "refused", "in doubt"])
async def test_map_back_that_does_not_count_is_as_none(wrong: str) -> None:
    maps, found = there(), back()
    match wrong:
        case "journal":
            found.journal_id = uuid.UUID(int=4)
        case "no entry":
            found.names.clear()
        case "another topic":
            found.names[THERE] = replace(found.names[THERE], target_topic_id=uuid.UUID(int=5))
        case "refused":
            found.refuse(BACK_KEY, DrlibError("it", "was truncated", "look"))
        case "in doubt":
            found.by_partition[BACK_KEY].apply(SourceTruncated(BACK_KEY, 1, 4, 0))
    assert (await answer(SharedLogs(maps, found, BOUNDS))).both_maps is False


@pytest.mark.parametrize(
    ("wrong", "kind", "why"),
    [
        ("names", NEVER, "nothing of it was copied"),
        ("partition", NEVER, "does not exist on the target"),
        ("leader", UNKNOWN, "no leader on RIGHT"),
        ("refused", UNKNOWN, "was truncated"),
        ("in doubt", UNKNOWN, "went back to offset 1"),
    ],
)
async def test_own_map_that_is_missing_makes_a_position_unknown_for_a_reason(
    wrong: str, kind: TranslationKind, why: str
) -> None:
    maps, bounds = there(), BOUNDS
    match wrong:
        case "names":
            maps.names.clear()
        case "partition":
            bounds = LogBounds({}, {}, {}, {})
        case "leader":
            bounds = LogBounds({}, {}, {}, {}, {ASKED: NoLeader(ASKED, "RIGHT")})
        case "refused":
            maps.refuse(KEY, DrlibError("it", "was truncated", "look"))
        case "in doubt":
            maps.by_partition[KEY].apply(SourceTruncated(KEY, 1, 4, 0))
    found = await answer(SharedLogs(maps, back(), bounds))
    assert (found.translation.kind, found.translation.offset) == (kind, None)
    assert why in found.why


async def test_what_a_checkpoint_says_counts_for_positions_behind_it_and_the_same_topics() -> None:
    maps = there()
    maps.by_partition[KEY] = built([(n, n + 4) for n in range(4)], 8)  # the target wrote 0 to 3 itself, and 8 and 9
    read = KnownRead(position=8, there=10, topic_id=HERE, target_id=THERE)
    for known, position, ranges in [
        (read, 8, ()),
        (read, 7, ((0, 10),)),
        (replace(read, there=3), 8, ((3, 10),)),
        (replace(read, there=11), 8, ((0, 10),)),  # the log lost its end since
        (replace(read, topic_id=JOURNAL), 8, ((0, 10),)),
        (replace(read, target_id=JOURNAL), 8, ((0, 10),)),
    ]:
        logs = SharedLogs(maps, UNREAD, BOUNDS, {ASKED: [known]})
        assert logs._ranges(ASKED, position) == (None, UNREAD, ranges)


def test_records_that_never_reach_the_target_are_named() -> None:
    offsets = built([(0, 0), (1, 1), (5, 2), (6, 3)], 7)
    offsets.apply(SourceLoss(KEY, 2, 5, 0))
    empty = PartitionMap()
    found = translate_shared(offsets, empty, 2, unread=None, start=0, end=4, why="")
    assert found == SharedAnswer(Translation(2, TranslationKind.LOST, 3), True, "")
    found = translate_shared(offsets, empty, 2, unread=1, start=0, end=4, why="")
    assert found.translation == Translation(1, TranslationKind.BOUNDED, 1)
    assert "3 records" in found.why


def test_position_in_what_the_targets_log_has_no_more_begins_at_its_start() -> None:
    offsets = built([(n, n) for n in range(10)], 10)
    found = translate_shared(offsets, PartitionMap(), 4, unread=None, start=6, end=10, why="")
    assert found.translation == Translation(6, TranslationKind.LOST, 2, 2)


def test_what_a_group_has_read_on_the_target_before_is_not_read_again() -> None:
    offsets = built([(n, n) for n in range(10)], 10)

    def found(read_there: int) -> Translation:
        given = {"unread": None, "start": 0, "end": 10, "why": "", "read_there": read_there}
        return translate_shared(offsets, PartitionMap(), 4, **given).translation  # type: ignore[arg-type]

    assert [found(read) for read in (0, 3, 4, 7)] == [Translation(n, EXACT) for n in (4, 4, 4, 7)]


async def test_position_beyond_the_targets_log_counts_up_to_its_end() -> None:
    unused: Any = None
    found = await SharedLogs(there(), back(), BOUNDS).answer(unused, [(ASKED, 4, 99)])
    assert found[ASKED, 4, 99].translation == Translation(10, EXACT)
