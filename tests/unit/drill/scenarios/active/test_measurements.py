"""The longest pause of a window."""

from __future__ import annotations

import pytest

from drlib.drill.scenarios.active.measurements import longest_pause_s


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
