"""The position of a group on the source after failback, by literal cases."""

from __future__ import annotations

import pytest
from small_maps import C1, TWO_RUNS, P, built

from drlib.mirror.journal.entries import Covered, Placement, Run, SourceTruncated, Takeover
from drlib.mirror.offsets.translation.failback_position import FailbackPosition, failback_position
from drlib.model import Translation, TranslationKind

EXACT, BOUNDED, UNKNOWN = TranslationKind.EXACT, TranslationKind.BOUNDED, TranslationKind.UNKNOWN


@pytest.mark.parametrize(
    ("position", "known", "expected"),
    [
        (8, {}, 18),  # all of the mirror was read
        (9, {}, 18),  # past the marker of a later claim, too
        (8, {"settled": 25}, 25),  # the unreplicated records were recovered or quarantined
        (8, {"settled": 25, "previously_read": 22}, 25),
        (8, {"previously_read": 22}, 22),  # they were left, and this group had read some of them before
        (8, {"previously_read": 12}, 18),
        (8, {"source_log_start": 30}, 30),
        (8, {"settled": 12}, 18),  # settled earlier, mirrored since
    ],
)
def test_failback_position_mirror_fully_read_resumes_after_it(
    position: int, known: dict[str, int], expected: int
) -> None:
    assert failback_position(built(*TWO_RUNS), position, **known) == FailbackPosition(Translation(expected, EXACT))


def test_failback_position_resumes_past_covered_offsets() -> None:
    assert failback_position(built(*TWO_RUNS, Covered(P, 20)), 8).translation == Translation(20, EXACT)


@pytest.mark.parametrize(("position", "offset", "unread"), [(1, 10, 7), (4, 13, 4), (6, 16, 2), (7, 17, 1)])
def test_failback_position_mirror_partly_read_resumes_at_its_record(position: int, offset: int, unread: int) -> None:
    offsets = built(*TWO_RUNS)
    assert failback_position(offsets, position) == FailbackPosition(Translation(offset, EXACT), unread)
    assert failback_position(offsets, position, previously_read=22) == FailbackPosition(
        Translation(offset, EXACT), unread
    )
    assert failback_position(offsets, position, settled=18).translation == Translation(offset, EXACT)
    assert failback_position(offsets, position, settled=25) == FailbackPosition(Translation(offset, BOUNDED, 7), unread)


def test_failback_position_nothing_mirrored_resumes_at_source_position() -> None:
    assert failback_position(None, 0) == FailbackPosition(Translation(0, EXACT), unread=0)
    assert failback_position(None, 0, settled=7, previously_read=5).translation == Translation(7, EXACT)
    assert failback_position(
        built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10)), 1, previously_read=12
    ).translation == Translation(12, EXACT)


@pytest.mark.parametrize(
    ("doubtful", "position", "expected"),
    [
        (0, 160, FailbackPosition(Translation(150, EXACT))),
        (4, 160, FailbackPosition(Translation(150, BOUNDED, 4))),
        (0, 120, FailbackPosition(Translation(101, BOUNDED, 49), 40)),
    ],
)
def test_failback_position_of_a_mirror_that_was_taken_over_and_not_continued(
    doubtful: int, position: int, expected: FailbackPosition
) -> None:
    """A group that had read half of it was sent to where it had been before the failover, or to the log start."""
    offsets = built(Takeover(P, 150, 160, 149, doubtful, 0, ((100, 110),)), Placement(P, C1, 0, 161))
    assert failback_position(offsets, position, previously_read=30) == expected


def test_failback_position_unknown_history_is_unknown() -> None:
    offsets = built(*TWO_RUNS, SourceTruncated(P, 14, 18, 0))
    assert failback_position(offsets, 8, settled=30).translation.kind is UNKNOWN
