"""The score of an incident, from events and measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.moves import Move, parse_move
from drlib.training.incidents.rules.score import (
    EventKind,
    IncidentEvent,
    Measurements,
    MoveRating,
    quiet_since,
    rate_move,
    recovered_since,
    score_incident,
)

LEFT_KILLED = InjectedCause("broker-killed", "LEFT")
WELL = Measurements(recovered=True, lost=0, read_again=0, doubled=0)
ACTED, DIAGNOSED = EventKind.ACTED, EventKind.DIAGNOSED


def _cause(at: float = 10.0, injected: InjectedCause = LEFT_KILLED) -> IncidentEvent:
    return IncidentEvent(at, EventKind.CAUSE_IN, cause=injected)


def _act(at: float, text: str, *, failed: bool = False) -> IncidentEvent:
    return IncidentEvent(at, ACTED, move=parse_move([text]), failed=failed)


PLAYED_WELL = (
    IncidentEvent(0, EventKind.STARTED),
    _cause(),
    _act(20, "acknowledge"),
    IncidentEvent(30, DIAGNOSED, detail="broker-killed"),
    _act(35, "restart-broker LEFT"),
    IncidentEvent(45, EventKind.RECOVERED),
    IncidentEvent(50, EventKind.FINISHED),
)


def test_score_reference_solution_in_time_gets_full_marks() -> None:
    score = score_incident(PLAYED_WELL, WELL)
    assert score.full
    assert score.points == 100
    assert (score.detect_s, score.diagnose_s, score.recover_s) == (10, 20, 35)
    assert [(part.name, part.why) for part in score.parts] == [
        ("detection", "after 10 s; all points up to 60 s"),
        ("diagnosis", "after 20 s; all points up to 150 s"),
        ("recovery", "after 35 s; all points up to 300 s"),
        ("records lost", "none"),
        ("records read again", "none"),
    ]


def test_score_without_a_cause_has_nothing_to_detect_and_recovers_from_the_start() -> None:
    score = score_incident((IncidentEvent(0, EventKind.STARTED), IncidentEvent(60, EventKind.FINISHED)), WELL)
    assert (score.detect_s, score.diagnose_s, score.recover_s) == (None, None, 60)
    assert [part.why for part in score.parts[:2]] == ["never", "never"]


def test_score_at_the_very_moment_of_the_cause_counts() -> None:
    events = (_cause(), _act(10, "acknowledge"), _act(10, "restart-broker LEFT"), *PLAYED_WELL[3:])
    score = score_incident(events, WELL)
    assert (score.points, score.detect_s) == (100, 0)
    assert score.parts[0].why.startswith("after 0 s")


def test_score_times_are_in_milliseconds_and_points_in_tenths() -> None:
    events = (_cause(), _act(10 + 152.1234567, "acknowledge"), IncidentEvent(10**4, EventKind.FINISHED))
    score = score_incident(events, Measurements(False, 0, 0))
    assert (score.detect_s, score.parts[0].points) == (152.123, 7.32)
    assert score.points == 7.3
    assert score_incident((_cause(), _act(10.5, "acknowledge")), WELL).detect_s == 0.5


def test_score_no_action_gets_zero_points() -> None:
    score = score_incident(
        (IncidentEvent(0, EventKind.STARTED), _cause(), IncidentEvent(60, EventKind.FINISHED)),
        Measurements(False, None, None),
    )
    assert score.points == 0
    assert score.recover_s is None
    assert score.detect_s is None
    lucky = score_incident(
        (IncidentEvent(0, EventKind.STARTED), _cause(), IncidentEvent(60, EventKind.FINISHED)),
        Measurements(False, 0, 0),
    )
    assert lucky.points == 0, "nothing lost so far is no merit while it still burns"


def test_score_wrong_move_costs_5_and_harmful_move_20() -> None:
    wrong = score_incident((*PLAYED_WELL[:4], _act(32, "restart-mirror"), *PLAYED_WELL[4:]), WELL)
    assert (wrong.points, wrong.wrong, wrong.harmful) == (95, 1, 0)
    harmful = score_incident((*PLAYED_WELL[:4], _act(32, "move-applications RIGHT"), *PLAYED_WELL[4:]), WELL)
    assert (harmful.points, harmful.wrong, harmful.harmful) == (80, 0, 1)
    twice = score_incident((*PLAYED_WELL[:4], *[_act(32, "restart-mirror")] * 2, *PLAYED_WELL[4:]), WELL)
    deduction = twice.parts[-1]
    assert (deduction.points, deduction.of, deduction.why) == (-10, 0, "2 at 5 points")
    deleted = score_incident(
        (*PLAYED_WELL[:4], _act(32, "delete-topic RIGHT LEFT.flights"), *PLAYED_WELL[4:]), replace(WELL, lost=7)
    )
    assert deleted.points == 65
    assert "7" in [part.why for part in deleted.parts]


def test_rate_move_harmful_for_one_of_two_causes_is_harmful() -> None:
    causes = (LEFT_KILLED, InjectedCause("slow-link-retention", "LEFT", "2000"))
    assert rate_move(_act(1, "stop-mirror"), causes) is MoveRating.HARMFUL
    assert rate_move(_act(1, "stop-mirror"), causes[:1]) is MoveRating.WRONG


def test_score_right_move_on_wrong_site_counts_as_wrong() -> None:
    score = score_incident((*PLAYED_WELL[:4], _act(32, "restart-broker RIGHT"), *PLAYED_WELL[4:]), WELL)
    assert score.points == 95


def test_score_hint_wrong_diagnosis_and_false_alarm_cost_5_each() -> None:
    assert score_incident((*PLAYED_WELL[:3], IncidentEvent(25, EventKind.HINTED), *PLAYED_WELL[3:]), WELL).points == 95
    assert (
        score_incident(
            (*PLAYED_WELL[:3], IncidentEvent(25, DIAGNOSED, detail="full-disk"), *PLAYED_WELL[3:]), WELL
        ).points
        == 95
    )
    early = score_incident((PLAYED_WELL[0], _act(5, "acknowledge"), *PLAYED_WELL[1:]), WELL)
    assert early.points == 95
    assert early.detect_s == 10


def test_score_time_points_decrease_linearly_after_the_limit() -> None:
    limit = CAUSES["broker-killed"].detect_s
    for late, points in ((0.0, 15.0), (1.5 * limit, 7.5), (3 * limit, 0.0), (9 * limit, 0.0)):
        events = (
            PLAYED_WELL[0],
            _cause(),
            _act(10 + limit + late, "acknowledge"),
            IncidentEvent(10**4, EventKind.FINISHED),
        )
        detection = score_incident(events, Measurements(False, 0, 0)).parts[0]
        assert detection.points == pytest.approx(points), late


def test_score_unknown_measurement_earns_nothing() -> None:
    assert score_incident(PLAYED_WELL, replace(WELL, lost=None)).points == 85
    assert score_incident(PLAYED_WELL, replace(WELL, read_again=None)).points == 90
    assert score_incident(PLAYED_WELL, replace(WELL, recovered=None)).points == 40


def test_score_relapse_restarts_the_recovery_time() -> None:
    again = (
        *PLAYED_WELL[:6],
        IncidentEvent(47, EventKind.RELAPSED),
        IncidentEvent(49, EventKind.RECOVERED),
        PLAYED_WELL[6],
    )
    assert score_incident(again, WELL).recover_s == 39
    only_at_the_end = (*PLAYED_WELL[:5], PLAYED_WELL[6])
    assert score_incident(only_at_the_end, WELL).recover_s == 40


def test_score_two_causes_share_diagnosis_points_and_need_both_recovered() -> None:
    sync = InjectedCause("stopped-group-sync", "mirror")
    events = (*PLAYED_WELL[:2], _cause(12, sync), *PLAYED_WELL[2:])
    half = score_incident(events, WELL)
    assert half.points == 87.5
    assert half.diagnose_s is None
    both = (
        *events[:5],
        IncidentEvent(31, DIAGNOSED, detail="stopped-group-sync"),
        _act(32, "enable-group-sync"),
        *events[5:],
    )
    score = score_incident(both, WELL)
    assert score.full
    assert (score.diagnose_s, score.recover_s) == (21, 33)  # from the first cause, and from the last
    assert [part.name for part in score.parts if part.name.startswith("diagnosis")] == [
        "diagnosis: A broker died",
        "diagnosis: Group offsets are no longer synchronized",
    ]


def test_score_split_brain_does_not_charge_records_read_again() -> None:
    split = InjectedCause("split-brain", "bookings")
    events = (
        _cause(10, split),
        _act(20, "acknowledge"),
        IncidentEvent(30, DIAGNOSED, detail="split-brain"),
        _act(35, "point-application bookings RIGHT"),
        IncidentEvent(45, EventKind.RECOVERED),
        IncidentEvent(50, EventKind.FINISHED),
    )
    score = score_incident(events, replace(WELL, read_again=40))
    assert score.full
    assert score.parts[-1].why == "40, because of the cause itself"
    assert score_incident(events, replace(WELL, read_again=None)).parts[-1].why == "the number is unknown"
    burning = score_incident(events, replace(WELL, recovered=False, read_again=40)).parts[-1]
    assert (burning.points, burning.why) == (0, "the incident had not recovered")
    also = (_cause(9, InjectedCause("stopped-group-sync", "mirror")), *events)
    assert score_incident(also, replace(WELL, read_again=40)).parts[-1].points == 10
    assert not score_incident(events, replace(WELL, lost=1)).full


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_score_charges_records_read_again_unless_the_fault_or_its_repair_makes_groups_read_them(cause: str) -> None:
    definition = CAUSES[cause]
    injected = InjectedCause(cause, definition.wheres[0], (definition.hows or ("",))[0])
    events = (_cause(10, injected), IncidentEvent(45, EventKind.RECOVERED), IncidentEvent(50, EventKind.FINISHED))
    part = next(p for p in score_incident(events, replace(WELL, read_again=40)).parts if "read again" in p.name)
    reads_again = {"split-brain", "reset-to-latest", "wrong-failover"}
    assert ("because of the cause itself" in part.why) == (cause in reads_again)


def test_rate_move_failed_repair_is_wrong() -> None:
    disk = (InjectedCause("full-disk", "RIGHT"),)
    assert rate_move(_act(1, "restart-broker RIGHT", failed=True), disk) is MoveRating.WRONG
    assert rate_move(_act(1, "restart-broker RIGHT"), disk) is MoveRating.RIGHT
    assert rate_move(_act(1, "acknowledge"), disk) is MoveRating.NEUTRAL
    assert rate_move(IncidentEvent(1, ACTED, move=Move("acknowledge")), ()) is MoveRating.WRONG


def test_rate_move_for_another_time_is_right_too() -> None:
    latest = (InjectedCause("reset-to-latest", "arrivals"),)
    assert rate_move(_act(1, "group-back arrivals 300"), latest) is MoveRating.RIGHT
    assert rate_move(_act(1, "group-back billing 120"), latest) is MoveRating.WRONG
    assert rate_move(_act(1, "describe-group LEFT arrivals"), latest) is MoveRating.NEUTRAL
    assert rate_move(_act(1, "describe-group LEFT arrivals"), ()) is MoveRating.NEUTRAL


def _symptom(at_s: float, name: str, *, gone: bool = False) -> IncidentEvent:
    return IncidentEvent(at_s, EventKind.SYMPTOM_GONE if gone else EventKind.SYMPTOM, detail=name)


def test_quiet_since_is_the_moment_of_the_last_symptom_that_was_gone() -> None:
    events = [_symptom(5, "a"), _symptom(6, "b"), _symptom(8, "a", gone=True)]
    assert quiet_since(()) is None
    assert quiet_since(events) is None
    events += [_symptom(9, "b", gone=True)]
    assert quiet_since(events) == 9
    assert quiet_since([*events, _symptom(12, "a")]) is None


def test_recovered_since_is_the_start_of_the_recovery_that_lasts() -> None:
    first, lost, again = (
        IncidentEvent(at_s, kind)
        for at_s, kind in ((5, EventKind.RECOVERED), (7, EventKind.RELAPSED), (9, EventKind.RECOVERED))
    )
    assert recovered_since(()) is None
    assert recovered_since([first, IncidentEvent(6, EventKind.RECOVERED)]) == 5
    assert recovered_since([first, lost]) is None
    assert recovered_since([first, lost, again]) == 9
    assert recovered_since([first, _cause(6)]) is None
