"""Whether the lab's producers stand still, by their own word.

Rules: a log that does not grow proves nothing of a producer that is slow: a record may be in its queue, and one whose process
got no time has not seen the hold yet. So those who say what they do are asked: held, of this pointer or a newer one, and
nothing in flight. Only who follows the pointer that is meant is asked.
Not for: consumers, whose groups say it; applications of your own, which the broker holds back (`source_fence`).
"""

from __future__ import annotations

from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_testbed import PRODUCERS, FailoverTestbed


def still_sending(place: DrillContext, pointer_version: int) -> str:
    """What a producer of the lab has still to do, in words; empty when none has anything, or there is no lab."""
    if place.lab is None:
        return ""
    stage = FailoverTestbed(place.lab, place.run_dir)
    if place.pointer != stage.pointer_path:
        return ""
    for name in PRODUCERS:
        status = stage.applications.status(name)
        if status is None or status.phase == "stopped" or not stage.applications.runs(name):
            continue
        if status.phase != "holding" or status.pointer_version < pointer_version:
            return f"{name} has not seen the hold yet"
        if status.in_flight:
            return f"{name} waits for the answer to {status.in_flight} records"
    return ""
