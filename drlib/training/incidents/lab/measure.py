"""The cost of an incident, measured at its end: records lost, duplicated, and read again.

Rules: applications are stopped gracefully, producers first, so that their histories are complete; a recovered mirror gets
time to copy the rest. The independent checker (`drlib.lab.checker`) judges histories and scans; it knows nothing of the
engine. After recovery a record is lost if RIGHT does not have it; before recovery only if LEFT does not have it either. A
count that could not be made is None.
Not for: points.
"""

import contextlib
from typing import Final

from drlib.errors import DrlibError
from drlib.lab.checker.history import History, Mirrored, ProducedStatus
from drlib.lab.checker.lost_and_duplicated import check
from drlib.lab.checker.report import CheckInput, CheckReport
from drlib.lab.checker.scan import scan
from drlib.training.incidents.lab.moves import is_mirrored
from drlib.training.incidents.lab.testbed import PRODUCERS, READERS, IncidentTestbed
from drlib.training.incidents.rules.score import Measurements

_MIRRORING_S: Final = 20.0
_SCAN_S: Final = 20.0


def measure(testbed: IncidentTestbed, *, recovered: bool) -> Measurements:
    """Stop the applications and count."""
    testbed.applications.stop(*PRODUCERS)
    if recovered:
        _wait_mirrored(testbed)
    testbed.applications.stop(*READERS)
    if testbed.java.present:
        testbed.java.stop()
    lost = read_again = duplicated = 0
    lost_known = read_again_known = True
    right_of: dict[str, tuple[Mirrored, ...] | None] = {}
    for group, topic in READERS.items():
        history = testbed.applications.history(topic, group)
        right = _scan(testbed, "RIGHT", f"LEFT.{topic}", topic)
        left = _scan(testbed, "LEFT", topic)
        missing = lost_records(history, topic, right, left, recovered=recovered)
        report = _report(history, group, topic, right)
        lost_known = lost_known and missing is not None
        lost += missing or 0
        read_again_known = read_again_known and report.groups[0].re_read is not None
        read_again += report.groups[0].re_read or 0
        duplicated += report.duplicated_count or 0
        right_of[topic] = right
    for group, topic in testbed.readers().items():
        if group not in READERS:
            again = _report(testbed.applications.history(topic, group), group, topic, right_of[topic]).groups[0].re_read
            read_again_known = read_again_known and again is not None
            read_again += again or 0
    return Measurements(
        recovered,
        lost if lost_known else None,
        read_again if read_again_known else None,
        duplicated if lost_known else None,
    )


def _wait_mirrored(testbed: IncidentTestbed) -> None:
    """Wait a limited time; records that are not mirrored by then are counted as they are."""
    with contextlib.suppress(DrlibError):
        testbed.wait("all records are mirrored", lambda: all(is_mirrored(testbed, t) for t in PRODUCERS), _MIRRORING_S)


def lost_records(
    history: History,
    topic: str,
    right: tuple[Mirrored, ...] | None,
    left: tuple[Mirrored, ...] | None,
    *,
    recovered: bool,
) -> int | None:
    """Count acknowledged records that are on no cluster where they have to be; None if a cluster could not be scanned, or where
    no record is known to be acknowledged: an empty history proves nothing."""
    if right is None or (left is None and not recovered) or history.missing:
        return None
    acknowledged = {row.id for row in history.produced if row.topic == topic and row.status is ProducedStatus.ACKED}
    present = {row.id for row in right}
    if not recovered and left is not None:
        present |= {row.id for row in left}
    return len(acknowledged - present) if acknowledged else None


def _scan(testbed: IncidentTestbed, site: str, *topics: str) -> tuple[Mirrored, ...] | None:
    """Every record of `topics` on a site; None if it does not answer."""
    if not testbed.answers(site):
        return None
    try:
        return tuple(row for topic in topics for row in scan(testbed.settings(site), topic, deadline_s=_SCAN_S))
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
