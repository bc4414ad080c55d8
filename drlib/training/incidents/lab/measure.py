"""What an incident has cost, counted when it is finished: records lost, doubled, and read again.

Rules: applications are stopped in order, so that histories end whole, producers first; a mirror that works gets time
to bring over what is left. The independent checker judges histories and scans, and knows nothing of the engine. Once
the incident is over a record is lost when RIGHT has it nowhere; before that only when LEFT has it no more either.
Nobody could look: None. Not for: points.
"""

from __future__ import annotations

import contextlib
from typing import Final

from drlib.errors import DrlibError
from drlib.lab.checker.failover import check
from drlib.lab.checker.history import History, Mirrored, ProducedStatus
from drlib.lab.checker.report import CheckInput, CheckReport
from drlib.lab.checker.scan import scan
from drlib.training.incidents.lab.moves import crossed
from drlib.training.incidents.lab.scene import PRODUCERS, READERS, Scene
from drlib.training.incidents.rules.score import Facts

_CROSSING_S: Final = 20.0
_SCAN_S: Final = 20.0


def measure(scene: Scene, *, recovered: bool) -> Facts:
    """Stop the applications and count."""
    scene.applications.stop(*PRODUCERS)
    if recovered:
        _await_crossing(scene)
    scene.applications.stop(*READERS)
    lost = again = doubled = 0
    known = counted = True
    for group, topic in READERS.items():
        history = scene.applications.history(topic, group)
        right = _rows(scene, "RIGHT", f"LEFT.{topic}", topic)
        left = _rows(scene, "LEFT", topic)
        missing = lost_of(history, topic, right, left, recovered=recovered)
        report = _report(history, group, topic, right)
        known = known and missing is not None
        lost += missing or 0
        counted = counted and report.groups[0].re_read is not None
        again += report.groups[0].re_read or 0
        doubled += report.duplicated_count or 0
    return Facts(recovered, lost if known else None, again if counted else None, doubled if known else None)


def _await_crossing(scene: Scene) -> None:
    """What does not come over in time is counted as it is."""
    with contextlib.suppress(DrlibError):
        scene.wait("everything has crossed", lambda: all(crossed(scene, topic) for topic in PRODUCERS), _CROSSING_S)


def lost_of(
    history: History,
    topic: str,
    right: tuple[Mirrored, ...] | None,
    left: tuple[Mirrored, ...] | None,
    *,
    recovered: bool,
) -> int | None:
    """Acknowledged records that are nowhere where they would have to be; None where that could not be looked at."""
    if right is None or (left is None and not recovered) or history.missing:
        return None
    acked = {row.id for row in history.produced if row.topic == topic and row.status is ProducedStatus.ACKED}
    there = {row.id for row in right}
    if not recovered and left is not None:
        there |= {row.id for row in left}
    return len(acked - there)


def _rows(scene: Scene, site: str, *topics: str) -> tuple[Mirrored, ...] | None:
    """Every record of `topics` there; None where the site does not answer."""
    if not scene.greets(site):
        return None
    try:
        return tuple(row for name in topics for row in scan(scene.bootstrap(site), name, deadline_s=_SCAN_S))
    except (DrlibError, OSError):
        return None


def _report(history: History, group: str, topic: str, right: tuple[Mirrored, ...] | None) -> CheckReport:
    return check(
        CheckInput(
            source="LEFT",
            target="RIGHT",
            topic=topic,
            remote_topic=f"LEFT.{topic}",
            groups=(group,),
            produced=history.produced,
            consumed=history.consumed,
            committed=history.committed,
            mirrored=right,
            torn=history.torn,
            open=history.open,
            missing=history.missing,
        )
    )
