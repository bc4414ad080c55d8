"""Positions between two logs of which MirrorMaker 2 began one: it copied, and repeated, among the target's own records."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_logs import PARTITION, Logs, built, events

from drlib.mirror.journal.entries import Chunk, Covered, OwnRecords, Takeover
from drlib.mirror.offsets.comparison.align import LogPart, align
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_followed import translate_followed
from drlib.mirror.offsets.translation.shared_logs import translate_shared
from drlib.mirror.offsets.translation.shared_position import may_be_own
from drlib.model import Segment, Translation, TranslationKind

EXACT, UNKNOWN = TranslationKind.EXACT, TranslationKind.UNKNOWN

# A client writes here or there, MirrorMaker 2 copies so many records, or begins again so many before the last that it copied.
earlier = st.lists(
    st.tuples(st.sampled_from(["here", "there", "mm2 copies", "mm2 copies", "mm2 restarts"]), st.integers(1, 5)),
    max_size=25,
)


def begun(past: list[tuple[str, int]]) -> tuple[Logs, Takeover, OwnRecords]:
    """Both logs when MirrorMaker 2 has stopped, and what is found then."""
    logs, at = Logs(), 0
    for event, count in past:
        if event == "mm2 restarts":
            at = max(0, at - count)
        elif event == "mm2 copies":
            logs.there += logs.here[at : at + count]
            at = min(len(logs.here), at + count)
            logs.read_here = max(logs.read_here, at)
        else:
            logs.happen(event, count)
    own = tuple((n, n + 1) for n, record in enumerate(logs.there) if record is not None and record.startswith("t"))
    return logs, Takeover(PARTITION, logs.read_here, len(logs.there), -1, 0, 0), OwnRecords(PARTITION, own, 0)


def compared(logs: Logs, takeover: Takeover, own: OwnRecords, map_: PartitionMap) -> None:
    """Apply what the comparison of both logs finds."""
    contents = {record: n for n, record in enumerate(dict.fromkeys([*logs.here, *logs.there]))}
    without = {first for first, _ in own.ranges}

    def part(log: list[str | None], end: int, left_out: set[int]) -> LogPart:
        offsets = [n for n in range(end) if n not in left_out]
        return LogPart(0, array("q", offsets), array("Q", [contents[log[n]] for n in offsets]), True)

    found = align(
        part(logs.here, len(logs.here), set()),
        part(logs.there, takeover.target_offset, without),
        (takeover.source_offset, takeover.target_offset),
    )
    assert map_.taken is not None
    for entry in map_.taken.extended(found.source, found.target, found.segments):
        map_.apply(entry)


def maps(logs: Logs, takeover: Takeover, own: OwnRecords, *, exact: bool) -> tuple[PartitionMap, PartitionMap]:
    there = PartitionMap()
    there.apply(takeover)
    if exact:
        compared(logs, takeover, own, there)
    there.apply(own)
    if logs.maps[0]:
        there.apply(Chunk(PARTITION, 0, tuple(Segment(source, target, 1) for source, target in logs.maps[0])))
    there.apply(Covered(PARTITION, logs.read_here))
    return there, built(logs.maps[1], logs.read_there)


def check(from_log: list[str | None], to_log: list[str | None], at: int, found: Translation) -> int:
    """Nothing is skipped, and no more is read again than is said; how much that is.

    A record that MirrorMaker 2 repeated is skipped where no copy of it is left to be read, and it is read again because of the
    move where it would not have been read again without it.
    """
    assert found.offset is not None
    read, coming = set(from_log[:at]), set(to_log[found.offset :])
    skipped = [record for record in to_log[: found.offset] if record is not None and record not in read | coming]
    assert not skipped, skipped
    done = read - set(from_log[at:])
    again = sum(record in done for record in to_log[found.offset :] if record is not None)
    assert again <= found.records
    return again


@given(earlier, events, st.integers(0, 80), st.booleans())
def test_positions_in_both_directions_skip_nothing_and_bound_what_is_read_again(
    past: list[tuple[str, int]], later: list[tuple[str, int]], at: int, exact: bool
) -> None:
    logs, takeover, own = begun(past)
    for event, count in [("marker there", 1), *later]:
        logs.happen(event, count)
    there, back = maps(logs, takeover, own, exact=exact)
    here = min(at, len(logs.here))
    check(logs.here, logs.there, here, translate_followed(there, back, here).translation)
    ranges = may_be_own(there, [(0, len(logs.there))])  # as where the source is lost
    own_there = (n for first, end in ranges for n in range(first, end) if (logs.there[n] or "").startswith("t"))
    unread, log_end = next(own_there, None), len(logs.there)
    answer = translate_shared(there, None, here, unread=unread, start=0, end=log_end, why="it is lost")
    check(logs.here, logs.there, here, answer.translation)
    beyond = min(at, len(logs.there))
    check(logs.there, logs.here, beyond, translate_followed(back, there, beyond).translation)


@pytest.mark.parametrize(
    ("past", "later", "at"),
    [
        ([("here", 1), ("mm2 copies", 1), ("mm2 restarts", 1), ("mm2 copies", 1)], [], 0),
        ([("here", 3), ("mm2 copies", 3), ("mm2 restarts", 3), ("mm2 copies", 3)], [("copy back", 1)], 3),
    ],
)
def test_positions_among_repeated_copies_skip_nothing(
    past: list[tuple[str, int]], later: list[tuple[str, int]], at: int
) -> None:
    logs, takeover, own = begun(past)
    for event, count in [("marker there", 1), *later]:
        logs.happen(event, count)
    there, back = maps(logs, takeover, own, exact=True)
    check(logs.here, logs.there, min(at, len(logs.here)), translate_followed(there, back, at).translation)
    check(logs.there, logs.here, at, translate_followed(back, there, at).translation)


def test_positions_are_exact_where_only_the_source_was_written_to() -> None:
    logs, takeover, own = begun([("here", 6), ("mm2 copies", 6)])
    for event, count in [("marker there", 1), ("here", 3), ("copy there", 3), ("copy back", 10)]:
        logs.happen(event, count)
    there, back = maps(logs, takeover, own, exact=True)
    assert [translate_followed(there, back, at).translation for at in (3, 7, 9)] == [
        Translation(offset, EXACT) for offset in (3, 8, 10)
    ]
    assert [translate_followed(back, there, at).translation for at in (3, 8, 10)] == [
        Translation(offset, EXACT) for offset in (3, 7, 9)
    ]


def test_position_is_unknown_until_it_is_known_which_records_are_copies() -> None:
    logs, takeover, own = begun([("here", 6), ("mm2 copies", 6)])
    there, back = maps(logs, takeover, own, exact=True)
    there.apply(takeover)  # as it was before
    for found in (translate_followed(there, back, 3), translate_followed(back, there, 3)):
        assert found.translation == Translation(None, UNKNOWN)
        assert "MirrorMaker 2" in found.why


@pytest.mark.parametrize(
    ("ranges", "found"), [([(0, 20)], [(2, 3), (9, 20)]), ([(0, 2)], []), ([(2, 3), (10, 12)], [(2, 3), (10, 12)])]
)
def test_own_records_below_a_takeover_are_those_that_were_found(
    ranges: list[tuple[int, int]], found: list[tuple[int, int]]
) -> None:
    there = PartitionMap()
    there.apply(Takeover(PARTITION, 8, 9, -1, 0, 0))
    there.apply(OwnRecords(PARTITION, ((2, 3),), 0))
    assert list(may_be_own(there, ranges)) == found
