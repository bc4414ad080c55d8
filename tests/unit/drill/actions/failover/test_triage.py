"""How long a source counts as silent that was found so before the run began."""

import pytest

from drlib.drill.actions.failover.triage import silent_s

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("since_ms", "for_s"),
    [(None, 0.0), (NOW_MS - 2_500, 2.5), (NOW_MS - 119_000, 119.0), (NOW_MS - 121_000, 0.0), (NOW_MS + 5_000, 0.0)],
)
def test_silence_found_before_the_run_counts_unless_it_is_old_or_in_the_future(
    since_ms: int | None, for_s: float
) -> None:
    assert silent_s(since_ms, NOW_MS) == for_s
