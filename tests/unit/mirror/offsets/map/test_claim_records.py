"""The line from record numbers to offsets, by literal points."""

from __future__ import annotations

import pytest

from drlib.mirror.offsets.map.claim_records import Line
from drlib.mirror.offsets.map.segments import MapContradiction


def line(*points: tuple[int, int]) -> Line:
    found = Line("run")
    for q, value in points:
        found.set(q, value, 0)
    return found


@pytest.mark.parametrize(
    "points", [((0, 10), (5, 16), (7, 20)), ((7, 20), (0, 10), (5, 16)), ((5, 9), (7, 20), (0, 10), (5, 16))]
)
def test_line_ascends_from_each_point_to_the_next(points: tuple[tuple[int, int], ...]) -> None:
    found = line(*points)
    assert [found.at(q)[0] for q in range(9)] == [10, 11, 12, 13, 14, 16, 17, 20, 21]
    assert [found.at(q)[1] for q in range(7)] == [5, 4, 3, 2, 1, 2, 1]
    assert found.at(7)[1] > 2**40  # without end
    assert (len(found), found.last) == (3, 7)


def test_line_without_points_has_no_offsets() -> None:
    assert (len(line()), line().last) == (0, 0)
    with pytest.raises(MapContradiction, match="record 0 was acknowledged, its run is not in the journal"):
        line().at(0)
    with pytest.raises(MapContradiction, match="record 2"):
        line((3, 10)).at(2)


def test_line_settled_records_may_be_repeated_and_not_changed() -> None:
    found = line((2, 10), (5, 16))
    for q, value in ((2, 10), (4, 12), (5, 16)):
        found.set(q, value, 6)
    assert [found.at(q)[0] for q in range(2, 7)] == [10, 11, 12, 16, 17]
    for q, value in ((2, 11), (5, 15), (1, 9)):
        with pytest.raises(MapContradiction, match="changed after 6 were acknowledged"):
            found.set(q, value, 6)
    with pytest.raises(MapContradiction, match="changed after 1 were acknowledged"):
        line().set(0, 10, 1)
    found.set(6, 30, 6)
    assert found.at(6)[0] == 30
