"""The pace of an application: a backlog at once, then a rate."""

from __future__ import annotations

from drlib.lab.apps.pacing import Pace


def test_pace_releases_backlog_then_rate() -> None:
    now = [100.0]
    pace = Pace(10.0, 3, lambda: now[0])
    assert pace.due() == 3
    now[0] += 60
    pace.count(3)
    assert pace.due() == 600
    pace.forgive()
    assert pace.due() == 0
    now[0] += 0.5
    assert pace.due() == 5
    pace.count(5)
    assert pace.due() == 0
    assert Pace(0.0, 0, lambda: now[0]).due() > 1000
