"""How long what a command found counts for the run that it begins."""

import pytest

from drlib.drill.readiness.score import Readiness
from drlib.runbook.just_found import NOTHING_FOUND, JustFound

NOW_MS = 1_000_000


@pytest.mark.parametrize(("age_s", "counts"), [(0, True), (29, True), (31, False), (-5, False)])
def test_readiness_that_was_found_counts_for_half_a_minute(age_s: int, counts: bool) -> None:
    ready = Readiness("paris->lyon", NOW_MS - age_s * 1000, ())
    found = JustFound(readiness=ready)
    assert found.judged(NOW_MS) == (ready if counts else None)


def test_nothing_found_is_judged_again() -> None:
    assert NOTHING_FOUND.judged(NOW_MS) is None
