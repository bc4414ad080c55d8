"""Incidents as rules: tables, seeds, symptoms and recovery from looks, scores from what happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.errors import UsageError
from drlib.training.incidents.rules.causes import CAUSES, Planted, in_turn
from drlib.training.incidents.rules.moves import KINDS, Move, parse
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.score import Event, Facts, Happened, Worth, judge, worth
from drlib.training.incidents.rules.seed import LEVELS, draw, seed_for
from drlib.training.incidents.rules.symptoms import ApplicationLook, GroupLook, Look, Symptom, TopicLook, symptoms

LEFT_KILLED = Planted("broker-killed", "LEFT")
WELL = Facts(recovered=True, lost=0, read_again=0, doubled=0)
ACTED, DIAGNOSED = Happened.ACTED, Happened.DIAGNOSED


def _cause(at: float = 10.0, planted: Planted = LEFT_KILLED) -> Event:
    return Event(at, Happened.CAUSE_IN, cause=planted)


def _act(at: float, text: str, *, failed: bool = False) -> Event:
    return Event(at, ACTED, move=parse([text]), failed=failed)


PLAYED_WELL = (
    Event(0, Happened.STARTED),
    _cause(),
    _act(20, "acknowledge"),
    Event(30, DIAGNOSED, word="broker-killed"),
    _act(35, "restart-broker LEFT"),
    Event(45, Happened.RECOVERED),
    Event(50, Happened.FINISHED),
)


# -- tables ---------------------------------------------------------------------------------------------------------


def test_there_are_twelve_causes_and_each_can_be_repaired_by_moves_there_are() -> None:
    assert len(CAUSES) == 12
    for cause in CAUSES.values():
        assert cause.level in (1, 2, 3)
        for where in cause.wheres:
            for how in cause.hows:
                planted = Planted(cause.name, where, how)
                assert planted.repair
                assert all(move.kind.changes and not move.kind.harmful for move in planted.repair)
                assert "{" not in "".join(planted.said(t) for t in (cause.story, cause.recovered, *cause.hints))
        assert set(cause.harmful) <= set(KINDS)
        assert not {move.name for move in planted.repair} & set(cause.harmful), "a repair that is called harmful"
        assert cause.symptoms
        assert len(set(cause.hints)) == 3


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["restart-brokr", "LEFT"], "Did you mean restart-broker"),
        (["restart-broker"], "it takes SITE"),
        (["restart-broker", "UP"], "There are LEFT and RIGHT"),
        ([], "nothing to do"),
        (["stop-mirror", "now"], "it takes no word"),
    ],
)
def test_a_move_that_is_none_is_refused_before_anything_is_touched(words: list[str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        parse(words)


# -- seeds ----------------------------------------------------------------------------------------------------------


def test_a_seed_is_the_same_incident_for_ever() -> None:
    """Written down: whoever changes the order of drawing, or the table, changes every game that was agreed on."""
    told = [
        [i.level, *(f"{c.cause} {c.where} {c.how}".strip() for c in i.causes), i.delay_s] for i in map(draw, range(4))
    ]
    assert told == [
        [5, "clock-skew gates 20", "open-transaction bookings", 17.7],
        [1, "link-cut-one-way RIGHT requests", 23.9],
        [5, "clock-skew gates 20", "foreign-writer flights crew-import", 17.9],
        [2, "stopped-group-sync mirror", 28.0],
    ]
    assert draw(7, 3) == draw(7, 3)


def test_levels_have_their_causes_and_two_causes_touch_nothing_in_common() -> None:
    for seed in range(300):
        for level in LEVELS:
            incident = draw(seed, level)
            levels = sorted(planted.kind.level for planted in incident.causes)
            assert incident.level == level
            assert 8 <= incident.delay_s <= 40
            if level <= 3:
                assert levels == [level]
                continue
            one, other = incident.causes
            assert one.places.isdisjoint(other.places), incident
            assert levels[-1] == 3 if level == 5 else levels[-1] < 3


def test_every_cause_has_a_seed() -> None:
    for name, cause in CAUSES.items():
        assert draw(seed_for(name), cause.level).causes[0].cause == name
    with pytest.raises(UsageError, match="none of that name"):
        seed_for("gremlins")


def test_a_level_there_is_not_and_a_negative_seed_are_refused() -> None:
    with pytest.raises(UsageError, match="level 9"):
        draw(1, 9)
    with pytest.raises(UsageError, match="seed -1"):
        draw(-1)


def test_what_runs_out_is_taken_first_then_a_site_and_then_the_rest() -> None:
    sync, slow = Planted("stopped-group-sync", "mirror"), Planted("slow-link-retention", "LEFT", "2000")
    right = Planted("broker-killed", "RIGHT")
    assert in_turn([sync, LEFT_KILLED, right]) == (LEFT_KILLED, right, sync)
    assert in_turn([right, slow]) == (slow, right)


# -- scores ---------------------------------------------------------------------------------------------------------


def test_whoever_plays_the_reference_in_time_gets_full_marks() -> None:
    score = judge(PLAYED_WELL, WELL)
    assert score.full
    assert score.points == 100
    assert (score.detect_s, score.diagnose_s, score.recover_s) == (10, 20, 35)


def test_who_does_nothing_gets_nothing() -> None:
    score = judge((Event(0, Happened.STARTED), _cause(), Event(60, Happened.FINISHED)), Facts(False, None, None))
    assert score.points == 0
    assert score.recover_s is None
    assert score.detect_s is None
    lucky = judge((Event(0, Happened.STARTED), _cause(), Event(60, Happened.FINISHED)), Facts(False, 0, 0))
    assert lucky.points == 0, "nothing lost so far is no merit while it still burns"


def test_a_wrong_move_costs_five_and_a_harmful_one_twenty() -> None:
    wrong = judge((*PLAYED_WELL[:4], _act(32, "restart-mirror"), *PLAYED_WELL[4:]), WELL)
    assert (wrong.points, wrong.wrong, wrong.harmful) == (95, 1, 0)
    harmful = judge((*PLAYED_WELL[:4], _act(32, "move-applications RIGHT"), *PLAYED_WELL[4:]), WELL)
    assert (harmful.points, harmful.wrong, harmful.harmful) == (80, 0, 1)
    deleted = judge(
        (*PLAYED_WELL[:4], _act(32, "delete-topic RIGHT LEFT.flights"), *PLAYED_WELL[4:]), replace(WELL, lost=7)
    )
    assert deleted.points == 65


def test_the_right_move_on_the_wrong_site_is_a_wrong_move() -> None:
    score = judge((*PLAYED_WELL[:4], _act(32, "restart-broker RIGHT"), *PLAYED_WELL[4:]), WELL)
    assert score.points == 95


def test_a_hint_a_wrong_diagnosis_and_a_false_alarm_cost_five_each() -> None:
    assert judge((*PLAYED_WELL[:3], Event(25, Happened.HINTED), *PLAYED_WELL[3:]), WELL).points == 95
    assert judge((*PLAYED_WELL[:3], Event(25, DIAGNOSED, word="full-disk"), *PLAYED_WELL[3:]), WELL).points == 95
    early = judge((PLAYED_WELL[0], _act(5, "acknowledge"), *PLAYED_WELL[1:]), WELL)
    assert early.points == 95
    assert early.detect_s == 10


def test_points_for_time_run_out_in_a_straight_line() -> None:
    limit = CAUSES["broker-killed"].detect_s
    for late, points in ((0.0, 15.0), (1.5 * limit, 7.5), (3 * limit, 0.0), (9 * limit, 0.0)):
        events = (PLAYED_WELL[0], _cause(), _act(10 + limit + late, "acknowledge"), Event(10**4, Happened.FINISHED))
        detection = judge(events, Facts(False, 0, 0)).parts[0]
        assert detection.points == pytest.approx(points), late


def test_what_is_not_known_of_the_data_earns_nothing() -> None:
    assert judge(PLAYED_WELL, replace(WELL, lost=None)).points == 85
    assert judge(PLAYED_WELL, replace(WELL, read_again=None)).points == 90
    assert judge(PLAYED_WELL, replace(WELL, recovered=None)).points == 40


def test_a_relapse_makes_recovery_begin_anew() -> None:
    again = (*PLAYED_WELL[:6], Event(47, Happened.RELAPSED), Event(49, Happened.RECOVERED), PLAYED_WELL[6])
    assert judge(again, WELL).recover_s == 39
    only_at_the_end = (*PLAYED_WELL[:5], PLAYED_WELL[6])
    assert judge(only_at_the_end, WELL).recover_s == 40


def test_two_causes_share_the_diagnosis_and_recovery_is_of_both() -> None:
    sync = Planted("stopped-group-sync", "mirror")
    events = (*PLAYED_WELL[:2], _cause(12, sync), *PLAYED_WELL[2:])
    half = judge(events, WELL)
    assert half.points == 87.5
    assert half.diagnose_s is None
    both = (*events[:5], Event(31, DIAGNOSED, word="stopped-group-sync"), _act(32, "enable-group-sync"), *events[5:])
    assert judge(both, WELL).full


def test_a_split_brain_has_read_records_again_before_anybody_came() -> None:
    split = Planted("split-brain", "bookings")
    events = (
        _cause(10, split),
        _act(20, "acknowledge"),
        Event(30, DIAGNOSED, word="split-brain"),
        _act(35, "point-application bookings RIGHT"),
        Event(45, Happened.RECOVERED),
        Event(50, Happened.FINISHED),
    )
    assert judge(events, replace(WELL, read_again=40)).full
    assert not judge(events, replace(WELL, lost=1)).full


def test_a_repair_out_of_order_that_failed_is_a_wrong_move() -> None:
    disk = (Planted("full-disk", "RIGHT"),)
    assert worth(_act(1, "restart-broker RIGHT", failed=True), disk) is Worth.WRONG
    assert worth(_act(1, "restart-broker RIGHT"), disk) is Worth.RIGHT
    assert worth(_act(1, "acknowledge"), disk) is Worth.LOOKING
    assert worth(Event(1, ACTED, move=Move("acknowledge")), ()) is Worth.WRONG


# -- symptoms and recovery ------------------------------------------------------------------------------------------


def _look(at_s: float, **changes: object) -> Look:
    """All is well: every second 100 records are written, mirrored and read."""
    n = int(at_s * 100)
    now = int(at_s * 1000)
    topics = tuple(TopicLook(name, n, n, 0, now, shape) for name, shape in SHAPES.items())
    applications = tuple(ApplicationLook(name, "running", "LEFT", n) for name in ("flights", "bookings", "arrivals"))
    menus = TopicLook("menus", 200, 200, 0, 0, (2, 2, None))
    look = Look(now, (), (*topics, menus), applications, (GroupLook("arrivals", n, n),), True, ())
    return replace(look, **changes)  # type: ignore[arg-type]


SHAPES = {"flights": (4, 4, 4), "bookings": (2, 2, 2), "gates": (1, 1, None)}
USUAL = _look(100)


def _topic(look: Look, name: str, **changes: object) -> Look:
    topics = tuple(replace(t, **changes) if t.topic == name else t for t in look.topics)  # type: ignore[arg-type]
    return replace(look, topics=topics)


def _then(now: Look) -> list[Look]:
    return [_look(100), _look(104), now]


def test_a_lab_that_is_well_shows_no_symptom_and_nothing_against_recovery() -> None:
    looks = _then(_look(108))
    assert symptoms(looks, USUAL) == ()
    assert unresolved([LEFT_KILLED], looks, USUAL) == ()
    assert unresolved([LEFT_KILLED], [_look(108)], USUAL) == ("it was not looked at for long enough",)


ILL = {
    Symptom.SITE_SILENT: _look(108, silent=("LEFT",)),
    Symptom.MIRROR_DOWN: _look(108, mirror_runs=False),
    Symptom.MIRROR_BEHIND: _topic(_look(108), "flights", mirrored=10_000),
    Symptom.MIRROR_REPORTS: _look(108, events=("ForeignWriter",)),
    Symptom.APPLICATION_STANDS: _look(108, applications=_look(104).applications),
    Symptom.POSITIONS_STAND: _look(108, groups=(GroupLook("arrivals", 10_800, 10_000),)),
    Symptom.SHAPES_DIFFER: _topic(_look(108), "flights", partitions=(6, 6, 4)),
    Symptom.TOPIC_SHRANK: _topic(_look(108), "menus", end=40, mirrored=40),
    Symptom.TIMES_WRONG: _topic(_look(108), "gates", newest_ms=30_000),
    Symptom.BOTH_WRITTEN: _topic(_look(108), "flights", local=70),
}


@pytest.mark.parametrize("symptom", Symptom)
def test_each_symptom_is_seen_and_nothing_else(symptom: Symptom) -> None:
    assert symptoms(_then(ILL[symptom]), USUAL) == (symptom,)


@pytest.mark.parametrize(
    ("cause", "look"),
    [
        (LEFT_KILLED, ILL[Symptom.SITE_SILENT]),
        (LEFT_KILLED, ILL[Symptom.APPLICATION_STANDS]),
        (LEFT_KILLED, ILL[Symptom.MIRROR_DOWN]),
        (Planted("link-cut-one-way", "LEFT", "requests"), ILL[Symptom.MIRROR_BEHIND]),
        (Planted("link-cut-one-way", "LEFT", "requests"), _topic(_look(108), "flights", mirrored=None)),
        (Planted("topic-recreated", "menus"), _look(108)),
        (Planted("partitions-added", "flights"), ILL[Symptom.SHAPES_DIFFER]),
        (Planted("stopped-group-sync", "mirror"), ILL[Symptom.POSITIONS_STAND]),
        (Planted("stopped-group-sync", "mirror"), _look(108, groups=(GroupLook("arrivals", 10_800, None),))),
        (
            Planted("foreign-writer", "flights", "seat-loader"),
            _look(108, applications=(*_look(108).applications, ApplicationLook("seat-loader", "running", "", 1))),
        ),
        (Planted("clock-skew", "gates", "20"), ILL[Symptom.TIMES_WRONG]),
        (Planted("clock-skew", "gates", "20"), _topic(_look(108), "gates", end=10_400, mirrored=10_400)),
        (Planted("split-brain", "bookings"), ILL[Symptom.BOTH_WRITTEN]),
        (Planted("split-brain", "bookings"), _look(108)),
    ],
)
def test_nothing_is_over_while_the_clusters_show_it(cause: Planted, look: Look) -> None:
    assert unresolved([cause], _then(look), USUAL)


def test_the_causes_with_a_state_of_their_own_are_over_when_it_is() -> None:
    rewound = _then(_look(108, rewound=("kitchen",)))
    assert unresolved([Planted("topic-recreated", "menus")], rewound, USUAL) == ()
    assert unresolved([Planted("stopped-group-sync", "mirror")], _then(_look(108)), USUAL) == ()
    assert unresolved([Planted("clock-skew", "gates", "20")], _then(_look(108)), USUAL) == ()
    right_only = [
        _topic(_topic(_look(at), "flights", end=9, mirrored=9, local=int(at)), "bookings", end=9, mirrored=9)
        for at in (100, 104, 108)
    ]
    assert unresolved([Planted("split-brain", "bookings")], right_only, USUAL) == ()


def test_a_lag_of_a_moment_is_none_and_a_small_one_that_stays_is() -> None:
    moment = _topic(_look(108), "flights", mirrored=10_700)
    assert Symptom.MIRROR_BEHIND not in symptoms(_then(moment), USUAL)
    stuck = [_topic(_look(at), "bookings", mirrored=10_300) for at in (104, 108)]
    assert Symptom.MIRROR_BEHIND in symptoms(stuck, USUAL)
