"""A finished incident as a debriefing shows it, played by a team with a wrong move, a hint and long texts."""

from __future__ import annotations

from drlib.training.incidents.rules.avoided_loss import Sample, avoided_loss
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.reveal import build_reveal
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, Measurements, MoveRating
from drlib.training.incidents.rules.symptoms import Symptom
from drlib.training.incidents.team.debriefing import DONE, FAILED, UNRECORDED, Action
from drlib.training.incidents.team.page import Played
from drlib.training.incidents.team.seats import Access

HOSTILE = "<img src=x onerror=alert(1)>"
START_MS = 1_700_000_000_000
KILLED = InjectedCause("broker-killed", "LEFT")
HINT = "Read the end of the broker's log: it stops in the middle of normal work, without an error."
MEASURED = Measurements(recovered=True, lost=0, read_again=0, doubled=0)


def event(at_s: float, kind: EventKind, detail: str = "", by: str = "") -> IncidentEvent:
    return IncidentEvent(at_s, kind, detail=detail, by=by)


def act(at_s: float, text: str, by: str, *, failed: bool = False) -> IncidentEvent:
    return IncidentEvent(at_s, EventKind.ACTED, move=parse_move([text]), by=by, failed=failed)


def played_by_a_team() -> Played:
    """Forty seconds late."""
    events = (
        event(0, EventKind.STARTED),
        event(1, EventKind.SEATED, "trainer", "Tom"),
        event(2, EventKind.SEATED, "acting", "Ana"),
        IncidentEvent(60, EventKind.CAUSE_IN, cause=KILLED),
        event(75, EventKind.SYMPTOM, Symptom.SITE_SILENT),
        event(76, EventKind.SYMPTOM, Symptom.RECORDS_SKIPPED),
        event(77, EventKind.SYMPTOM_GONE, Symptom.RECORDS_SKIPPED),
        event(78, EventKind.SYMPTOM, Symptom.RECORDS_SKIPPED),
        act(80, "acknowledge", "Ana"),
        event(85, EventKind.HINTED, HINT, "Bo"),
        event(90, EventKind.BEGUN, "move-applications RIGHT", "Bo"),
        act(92, "move-applications RIGHT", "Bo", failed=True),
        event(100, EventKind.DIAGNOSED, "broker-killed", "Ana"),
        event(110, EventKind.BEGUN, "restart-broker LEFT", "Ana"),
        act(115, "restart-broker LEFT", "Ana"),
        event(120, EventKind.SYMPTOM_GONE, Symptom.SITE_SILENT),
        event(121, EventKind.SYMPTOM_GONE, Symptom.RECORDS_SKIPPED),
        event(125, EventKind.RECOVERED),
        event(140, EventKind.FINISHED),
    )
    samples = tuple(
        Sample(START_MS + 1000 * n, None if 62 <= n < 120 else 5, None if 62 <= n < 120 else 0, 5 * (66 <= n < 120))
        for n in range(140)
    )
    site = Symptom.SITE_SILENT.value
    actions = (
        Action(90, "Bo", "move-applications RIGHT", 20, 2, FAILED),
        Action(70, "Ana", "restart-broker LEFT", 30, 45, DONE, site, 50),
        Action(123, "Ana", "point-application a-name-of-an-application-which-is-rather-long RIGHT", 60, 15, DONE),
        Action(130, "Bo", "restart-mirror", 10, None, UNRECORDED),
    )
    return Played(
        "20231114T221320Z-incident-0a1b2c",
        build_reveal(events, MEASURED),
        avoided_loss(events, samples, START_MS, MEASURED),
        START_MS,
        actions,
        (MoveRating.HARMFUL, MoveRating.RIGHT, MoveRating.WRONG),
        {"Tom": Access.TRAINER, "Ana": Access.ACTING, "Bo": Access.ACTING},
    )
