"""Progress, rate and stalls of a flow that catches up."""

from __future__ import annotations

from drlib.drill.actions.failback.catching_up import CatchingUp


def test_catching_up_estimates_from_what_is_missing() -> None:
    progress = CatchingUp()
    progress.seen(0.0, 1000, 0)
    assert progress.eta == "unknown"
    progress.seen(10.0, 500, 600)
    assert progress.left_s == 10.0
    progress.seen(11.0, 0, 1200)
    assert (progress.eta, progress.missing) == ("now", 0)


def test_catching_up_is_not_stalled_while_records_are_copied_though_more_are_missing() -> None:
    progress = CatchingUp()
    progress.seen(0.0, 100, 0)
    progress.seen(50.0, 900, 10)
    assert progress.left_s is None  # it grows
    assert progress.stalled_s(60.0) == 10.0
    progress.seen(60.0, 1000, 10)
    assert progress.stalled_s(200.0) == 150.0


def test_catching_up_forgets_looks_that_are_older_than_its_window() -> None:
    progress = CatchingUp()
    progress.seen(0.0, 10_000, 0)
    progress.seen(100.0, 1000, 9000)
    progress.seen(110.0, 900, 9100)
    assert progress.left_s == 90.0
