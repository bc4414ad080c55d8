"""The longest pause of a window, and bytes per record of one group and of many."""

from __future__ import annotations

import pytest

from drlib.drill.scenarios.active.measurements import bytes_ratio, longest_pause_s


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([1000, 1500, 1700, 2900], 1.2),
        ([2900, 1000, 1700, 1500], 1.2),  # in whatever order
        ([1900], 1.1),  # until the end of the window
        ([2500], 1.5),  # from its beginning
        ([], 2.0),
        ([1, 999, 3001, 9000], 2.0),  # outside of it
    ],
)
def test_longest_pause_counts_window_edges(moments: list[int], expected: float) -> None:
    assert longest_pause_s(moments, 1000, 3000) == expected


def test_longest_pause_empty_window_is_none() -> None:
    assert longest_pause_s([1000], 3000, 3000) is None


@pytest.mark.parametrize(
    ("measurements", "expected"),
    [
        ([(100.0, 149.0)], 1.49),  # once, and not measured again
        ([(100.0, 700.0), (100.0, 110.0)], 1.1),  # a machine that stood still in the second one
        ([(100.0, 700.0), (160.0, 160.0), (130.0, 130.0)], 1.0),
        (
            [(25.0, 102.0), (100.0, 110.0), (100.0, 105.0)],
            1.02,
        ),  # records that had crossed before were appended in the first
        ([(100.0, 500.0), (100.0, 500.0), (100.0, 500.0)], 5.0),  # each group over the link by itself
        ([(100.0, 150.0), (300.0, 200.0), (100.0, 200.0)], 1.5),  # noise with one group hides no second crossing
    ],
)
def test_bytes_ratio_measures_again_until_records_crossed_once(
    measurements: list[tuple[float, float]], expected: float
) -> None:
    left = list(measurements)
    assert bytes_ratio(lambda: left.pop(0)) == expected
    assert left == []
