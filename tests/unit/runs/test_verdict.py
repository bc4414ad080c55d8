"""What a verdict is made from."""

from __future__ import annotations

import pytest

from drlib.runs.verdict import MOST_AHEAD_MS, ahead


@pytest.mark.parametrize(
    ("by_ms", "wrong"), [(-1, False), (0, False), (MOST_AHEAD_MS, False), (MOST_AHEAD_MS + 1, True)]
)
def test_ahead_of_this_clock_by_more_than_a_day_is_by_a_clock_that_was_wrong(by_ms: int, wrong: bool) -> None:
    now_ms = 1_800_000_000_000
    assert ahead(now_ms + by_ms, now_ms) is wrong
    assert MOST_AHEAD_MS == 24 * 3_600_000
