"""The checker of a failover and failback: each violation is found, and each condition is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drlib.lab.checker.history import CommitStatus, Committed, Consumed, History, Mirrored, Produced, ProducedStatus
from drlib.lab.checker.round_trip import Trip, TripReport, check_round_trip
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.check import Verdict

HOME, AWAY, TOPIC = "LEFT", "RIGHT", "t"
MIRROR, BACK = f"{HOME}.{TOPIC}", f"{AWAY}.{TOPIC}"


def produced(name: str, n: int, cluster: str, ms: int, status: ProducedStatus = ProducedStatus.ACKED) -> Produced:
    return Produced(name, "k", n, cluster, TOPIC, 0, n, ms, ms, status)


def consumed(name: str, n: int, cluster: str, topic: str, ms: int) -> Consumed:
    return Consumed("g", cluster, topic, 0, n, name, "k", n, ms)


def there(topic: str, *names: str) -> tuple[Mirrored, ...]:
    return tuple(Mirrored(topic, 0, offset, name, "k", 0, 0) for offset, name in enumerate(names))


def in_order(*rows: tuple[str, int], first: int = 0) -> tuple[Mirrored, ...]:
    """A log of records with their numbers, from that offset on."""
    return tuple(Mirrored(TOPIC, 0, first + at, name, "k", n, 0) for at, (name, n) in enumerate(rows))


# a0 is mirrored, a1 and a2 are the tail; the group had read a0 and a1 on LEFT. b is written on RIGHT, c on LEFT again.
PRODUCED = (
    produced("a0", 0, HOME, 10),
    produced("a1", 1, HOME, 20),
    produced("a2", 2, HOME, 30),
    produced("b", 3, AWAY, 2030),
    produced("c", 4, HOME, 3000),
)
READ = (consumed("a0", 0, HOME, TOPIC, 11), consumed("a1", 1, HOME, TOPIC, 21))
LEFT = there(TOPIC, "a0", "a1", "a2", "c")
ABROAD, HOME_AGAIN = consumed("b", 3, AWAY, TOPIC, 2040), consumed("c", 4, HOME, TOPIC, 3010)

QUARANTINED = Trip(
    HOME,
    AWAY,
    TOPIC,
    ("g",),
    History(PRODUCED, (*READ, ABROAD, HOME_AGAIN)),
    (*LEFT, *there(BACK, "b")),
    (*there(MIRROR, "a0"), *there(TOPIC, "b")),
    there("drlib.tail.LEFT.t", "a1", "a2"),
    Settle.QUARANTINE,
)
RECOVERED = replace(
    QUARANTINED,
    history=History(
        PRODUCED,
        (
            *READ,
            ABROAD,
            consumed("a1", 1, AWAY, TOPIC, 2050),
            consumed("a2", 2, AWAY, TOPIC, 2060),
            HOME_AGAIN,
        ),
    ),
    home_log=(*LEFT, *there(BACK, "b", "a1", "a2")),
    away_log=(*there(MIRROR, "a0"), *there(TOPIC, "b", "a1", "a2")),
    quarantine=(),
    settled=Settle.RECOVER,
)


def failed(report: TripReport) -> list[str]:
    return [one.name for one in report.checks if one.verdict not in {Verdict.PASS, Verdict.CONDITIONS}]


def test_round_trip_quarantined_tail_passes_without_price() -> None:
    report = check_round_trip(QUARANTINED)
    assert (failed(report), report.verdict) == ([], Verdict.PASS)
    assert (report.acknowledged, report.tail, report.quarantined, report.recovered, report.lost) == (5, 2, 2, 0, 0)
    assert report.doubled == 0
    assert check_round_trip(replace(QUARANTINED, home_log=(*LEFT, *there(BACK, "b", "b", "c")))).doubled == 2
    assert [one for one in report.checks if one.verdict is Verdict.CONDITIONS] == []
    assert report.pauses_s == (2.0, 0.97)


def test_round_trip_recovered_tail_passes_with_price() -> None:
    report = check_round_trip(RECOVERED)
    assert failed(report) == []
    (group,) = report.groups
    assert (group.again, group.again_tail, group.again_failover, group.skipped) == (0, 1, 0, 0)
    assert (group.late, group.out_of_order) == (1, 0)  # a2, behind b; a1 had been read before
    assert sum(one.verdict is Verdict.CONDITIONS for one in report.checks) == 2


def test_round_trip_lost_commits_are_a_price_of_failover_only() -> None:
    again = consumed("a0", 0, AWAY, MIRROR, 2035)
    trip = replace(QUARANTINED, history=History(PRODUCED, (*READ, again, ABROAD, HOME_AGAIN)))
    assert failed(check_round_trip(trip)) == []
    (group,) = check_round_trip(trip).groups
    assert (group.again_failover, group.again_sent) == (1, 0)
    planned = replace(trip, settled=None)
    assert "group g reads nothing again" in failed(check_round_trip(planned))
    assert check_round_trip(planned).groups[0].again == 1


def test_round_trip_records_read_again_are_a_price_up_to_the_commits_that_had_not_crossed() -> None:
    """The group had committed a0 and a1 on LEFT; RIGHT knew as much of it as is said. a0 is not read again in place of a1."""
    again = consumed("a0", 0, AWAY, MIRROR, 2035)
    commits = (Committed("g", HOME, TOPIC, 0, 2, 22),)
    trip = replace(QUARANTINED, history=History(PRODUCED, (*READ, again, ABROAD, HOME_AGAIN), commits))
    for known, price, beyond in ((0, 1, 0), (1, 0, 1), (2, 0, 1)):
        report = check_round_trip(replace(trip, crossed={("g", 0): known}))
        assert (report.groups[0].again_failover, report.groups[0].again) == (price, beyond)
        assert failed(report) == (["group g reads nothing again"] if beyond else [])
    assert failed(check_round_trip(replace(trip, crossed={}))) == [], "nothing of it had crossed"


@pytest.mark.parametrize("committed", [(), ((2, 22), (1, 12)), ((1, 12), (2, 22))])
def test_round_trip_price_does_not_depend_on_the_order_of_the_members_histories(
    committed: tuple[tuple[int, int], ...],
) -> None:
    """Nor on the last commit: a record whose commit was not answered is read again, too."""
    again = consumed("a0", 0, AWAY, MIRROR, 2035)
    commits = tuple(Committed("g", HOME, TOPIC, 0, offset, ms) for offset, ms in committed)
    history = History(PRODUCED, (*READ, again, ABROAD, HOME_AGAIN), commits)
    report = check_round_trip(replace(QUARANTINED, history=history, crossed={("g", 0): 0}))
    assert (report.groups[0].again_failover, report.groups[0].again) == (1, 0)


def test_round_trip_prices_name_what_was_read_again() -> None:
    def price(trip: Trip) -> str:
        return next(one.evidence for one in check_round_trip(trip).checks if one.name.startswith("group g reads"))

    assert price(RECOVERED) == "0 of 6 read again for another reason; 1 recovered, which it had read at LEFT"
    assert price(QUARANTINED) == "0 of 4 read again"
    left = replace(QUARANTINED, quarantine=(), settled=Settle.LEAVE)
    assert price(left) == "0 of 4 read again"
    a2 = consumed("a2", 2, HOME, TOPIC, 31)
    read = (*READ, a2, ABROAD, replace(a2, at_ms=3005), HOME_AGAIN)
    assert price(replace(left, history=History(PRODUCED, read))) == (
        "0 of 6 read again for another reason; 1 of the tail that stayed behind, which their producer had also sent to RIGHT"
    )


def test_round_trip_name_of_a_conditional_check_claims_no_more_than_its_figure() -> None:
    names = {one.name for one in check_round_trip(RECOVERED).checks if one.verdict is Verdict.CONDITIONS}
    assert names == {
        "group g reads again only what the failover made unavoidable",
        "group g sees every key in order, apart from the recovered tail",
    }


def test_round_trip_tail_was_acknowledged_before_anything_was_away() -> None:
    more = (*PRODUCED, produced("a3", 5, HOME, 2030), produced("e", 6, AWAY, 3500))
    assert check_round_trip(replace(QUARANTINED, history=History(more))).tail == 2


@pytest.mark.parametrize(("settled", "verdict"), [(Settle.QUARANTINE, Verdict.UNKNOWN), (None, Verdict.PASS)])
def test_round_trip_tail_without_anything_acknowledged_away_is_unknown_after_a_failover(
    settled: Settle | None, verdict: Verdict
) -> None:
    home_only = tuple(row for row in PRODUCED if row.cluster == HOME)
    commit = Committed("g", HOME, TOPIC, 0, 2, 25)
    trip = replace(QUARANTINED, history=History(home_only, READ, (commit,)), settled=settled)
    (tail,) = (one for one in check_round_trip(trip).checks if one.name == "the tail is accounted for")
    assert tail.verdict is verdict


def test_round_trip_tail_that_is_all_that_home_still_holds_is_accounted_for() -> None:
    trip = replace(
        QUARANTINED,
        history=History(PRODUCED[:4], (*READ, ABROAD)),
        home_log=(*there(TOPIC, "a1", "a2"), *there(BACK, "b")),
        quarantine=(),
        settled=Settle.LEAVE,
    )
    assert "the tail is accounted for" not in failed(check_round_trip(trip))


@pytest.mark.parametrize("gap", [{"home_log": ()}, {"away_log": ()}, {"history": History()}])
def test_round_trip_without_a_log_or_history_is_unknown(gap: dict[str, Any]) -> None:
    checks = check_round_trip(replace(QUARANTINED, **gap)).checks
    about_records = [
        one.verdict for one in checks if one.name in ("no acknowledged record is lost", "no record is there twice")
    ]
    assert about_records == [Verdict.UNKNOWN] * 2


@pytest.mark.parametrize(
    ("rows", "verdict"), [((), Verdict.UNKNOWN), ((consumed("a0", 0, HOME, TOPIC, 11),), Verdict.FAIL)]
)
def test_round_trip_group_is_judged_from_its_first_record_on(rows: tuple[Consumed, ...], verdict: Verdict) -> None:
    checks = check_round_trip(replace(QUARANTINED, history=History(PRODUCED, rows))).checks
    assert [one.verdict for one in checks if one.name == "group g skips nothing"] == [verdict]


def test_round_trip_rows_of_other_groups_and_topics_do_not_count() -> None:
    rows = QUARANTINED.history.consumed
    noise = (*(replace(row, group="h", at_ms=1) for row in rows), *(replace(row, topic="other") for row in rows))
    assert check_round_trip(replace(QUARANTINED, history=History(PRODUCED, (*rows, *noise)))).groups == (
        check_round_trip(QUARANTINED).groups
    )


@pytest.mark.parametrize(
    ("trip", "name"),
    [
        (replace(QUARANTINED, home_log=there(TOPIC, "a0", "a1", "a2", "c")), "no acknowledged record is lost"),
        (replace(QUARANTINED, quarantine=there("q", "a1")), "the tail is accounted for"),
        (replace(RECOVERED, away_log=(*there(MIRROR, "a0"), *there(TOPIC, "b", "a1"))), "the tail is accounted for"),
        (replace(QUARANTINED, settled=None), "the tail is accounted for"),
        (replace(QUARANTINED, home_log=(*LEFT, *there(BACK, "b", "b"))), "no record is there twice"),
        (replace(QUARANTINED, home_log=(*LEFT, *there(BACK, "b", "c"))), "no record is there twice"),
        (
            replace(QUARANTINED, history=History(PRODUCED, (*READ, ABROAD))),
            "group g skips nothing",
        ),
        (
            replace(QUARANTINED, history=History(PRODUCED, (*READ, ABROAD, consumed("b", 3, HOME, BACK, 3005), HOME_AGAIN))),
            "group g reads nothing again",
        ),
        (
            replace(QUARANTINED, history=History(PRODUCED, (*READ, HOME_AGAIN, consumed("b", 3, HOME, BACK, 3020)))),
            "group g sees every key in order",
        ),
        (replace(QUARANTINED, history=History(PRODUCED, (*READ, ABROAD, HOME_AGAIN), torn=1)), "the histories are whole"),
        (replace(QUARANTINED, history=History(PRODUCED, ())), "group g skips nothing"),
        (replace(QUARANTINED, home_log=()), "no acknowledged record is lost"),
    ],
)  # fmt: skip
def test_round_trip_violations_fail(trip: Trip, name: str) -> None:
    report = check_round_trip(trip)
    assert name in failed(report)
    assert report.verdict is not Verdict.PASS


def test_round_trip_record_in_doubt_on_both_clusters_is_no_duplicate() -> None:
    doubted = (*PRODUCED, produced("d", 5, HOME, -1, ProducedStatus.IN_DOUBT), produced("d", 5, AWAY, 2031))
    trip = replace(
        QUARANTINED,
        history=History(doubted, (*READ, ABROAD, consumed("d", 5, AWAY, TOPIC, 2041), replace(HOME_AGAIN, n=6))),
        home_log=(*there(TOPIC, "a0", "a1", "a2", "d", "c"), *there(BACK, "b", "d")),
        away_log=(*there(MIRROR, "a0"), *there(TOPIC, "b", "d")),
        quarantine=there("q", "a1", "a2", "d"),
    )
    assert failed(check_round_trip(trip)) == []


def test_round_trip_record_in_doubt_read_again_is_a_price() -> None:
    doubted = (*PRODUCED, produced("d", 5, HOME, -1, ProducedStatus.IN_DOUBT), produced("d", 5, AWAY, 2031))
    base = replace(
        QUARANTINED,
        home_log=(*there(TOPIC, "a0", "a1", "a2", "d", "c"), *there(BACK, "b", "d")),
        away_log=(*there(MIRROR, "a0"), *there(TOPIC, "b", "d")),
        quarantine=there("q", "a1", "a2", "d"),
    )
    home, away = replace(HOME_AGAIN, n=6), consumed("d", 2, AWAY, TOPIC, 2036)
    read_at_home = (*READ, consumed("d", 2, HOME, TOPIC, 22), away, ABROAD, home)
    report = check_round_trip(replace(base, history=History(doubted, read_at_home)))
    (group,) = report.groups
    assert (failed(report), group.again_failover, group.again_sent) == ([], 1, 1)
    read_back = (*READ, away, ABROAD, consumed("a2", 2, HOME, TOPIC, 3001), consumed("d", 2, HOME, TOPIC, 3002), home)
    trip = replace(base, history=History(doubted, read_back), quarantine=())
    report = check_round_trip(replace(trip, settled=Settle.LEAVE))
    assert (failed(report), report.groups[0].again_tail) == ([], 1)
    assert "group g reads nothing again" in failed(check_round_trip(replace(trip, settled=Settle.RECOVER)))


def test_round_trip_left_tail_read_again_needs_unanswered_commit() -> None:
    a2 = consumed("a2", 2, HOME, TOPIC, 31)
    read = (*READ, a2, ABROAD, replace(a2, at_ms=3005), HOME_AGAIN)
    commit = Committed("g", HOME, TOPIC, 0, 2, 25)
    trip = replace(QUARANTINED, history=History(PRODUCED, read, (commit,)), quarantine=(), settled=Settle.LEAVE)
    report = check_round_trip(trip)
    assert (failed(report), report.groups[0].again_tail) == ([], 1)
    answered = replace(trip, history=History(PRODUCED, read, (replace(commit, offset=3),)))
    assert "group g reads nothing again" in failed(check_round_trip(answered))
    for changes in ({"group": "h"}, {"cluster": AWAY}, {"status": CommitStatus.UNKNOWN}, {"at_ms": 2030}):
        other = replace(commit, offset=3, **changes)
        assert check_round_trip(replace(trip, history=History(PRODUCED, read, (commit, other)))) == report


def test_round_trip_left_tail_of_a_partition_without_a_commit_is_read_again_at_a_price() -> None:
    a2 = replace(consumed("a2", 0, HOME, TOPIC, 31), partition=1)
    read = (*READ, a2, ABROAD, replace(a2, at_ms=3005), HOME_AGAIN)
    trip = replace(QUARANTINED, history=History(PRODUCED, read), quarantine=(), settled=Settle.LEAVE)
    assert check_round_trip(trip).groups[0].again_tail == 1


def test_round_trip_left_record_that_was_not_in_doubt_is_not_read_again_at_home() -> None:
    there_and_back = (consumed("a0", 0, AWAY, MIRROR, 2035), ABROAD, consumed("a0", 0, HOME, TOPIC, 3001), HOME_AGAIN)
    trip = replace(QUARANTINED, history=History(PRODUCED, there_and_back), quarantine=(), settled=Settle.LEAVE)
    (group,) = check_round_trip(trip).groups
    assert (group.again, group.again_tail) == (1, 0)


# The same under one name: a1 and a2 cross behind b, and the group, which had read a0 and a1 on LEFT, reads a1 again on RIGHT.
CROSSED = Trip(
    HOME,
    AWAY,
    TOPIC,
    ("g",),
    History(
        PRODUCED,
        (*READ, ABROAD, consumed("a1", 1, AWAY, TOPIC, 2050), consumed("a2", 2, AWAY, TOPIC, 2060), HOME_AGAIN),
    ),
    in_order(("a0", 0), ("a1", 1), ("a2", 2), ("b", 3), ("c", 4)),
    in_order(("a0", 0), ("b", 3), ("a1", 1), ("a2", 2), ("c", 4)),
    before_return=in_order(("a0", 0), ("b", 3)),
)


def test_shared_topic_whose_tail_crossed_late_is_whole_and_says_its_price() -> None:
    report = check_round_trip(CROSSED)
    assert (failed(report), report.acknowledged, report.lost, report.tail, report.recovered) == ([], 5, 0, 2, 2)
    (group,) = report.groups
    assert (group.again, group.again_failover, group.again_tail, group.late, group.out_of_order) == (0, 0, 1, 1, 0)
    priced = {one.name for one in report.checks if one.verdict is Verdict.CONDITIONS}
    assert priced == {
        "RIGHT has every key in order, apart from the tail",
        "group g reads again only what the failover made unavoidable",
        "group g sees every key in order, apart from the tail",
    }


def test_shared_topic_whose_tail_is_all_that_the_other_cluster_still_holds_is_accounted_for() -> None:
    found = failed(check_round_trip(replace(CROSSED, away_log=in_order(("a1", 1), ("a2", 2)))))
    assert "the tail is accounted for" not in found
    assert "both clusters have the same records" in found


def test_shared_topic_read_again_after_the_failover_is_counted_apart_from_the_tail() -> None:
    rows = (*CROSSED.history.consumed, consumed("a0", 0, AWAY, TOPIC, 2035))
    report = check_round_trip(replace(CROSSED, history=History(PRODUCED, rows)))
    (group,) = report.groups
    assert (failed(report), group.again_failover, group.again_sent, group.again_tail) == ([], 1, 0, 1)


def test_shared_topic_records_without_an_answer_count_where_they_are() -> None:
    doubted = (*PRODUCED, produced("d", 5, HOME, -1, ProducedStatus.IN_DOUBT))
    rows = (*CROSSED.history.consumed, consumed("d", 5, HOME, TOPIC, 3020))
    whole = replace(
        CROSSED,
        history=History(doubted, rows),
        home_log=(*CROSSED.home_log, *in_order(("d", 5), first=9)),
        away_log=(*CROSSED.away_log, *in_order(("d", 5), first=9)),
    )
    assert failed(check_round_trip(whole)) == []
    unread = replace(whole, history=History(doubted, CROSSED.history.consumed))
    assert failed(check_round_trip(unread)) == ["group g skips nothing"]
    nowhere = replace(CROSSED, history=History(doubted, CROSSED.history.consumed))
    assert failed(check_round_trip(nowhere)) == []


def test_shared_topic_record_sent_twice_by_its_producer_is_there_twice_and_no_more() -> None:
    doubted = (*PRODUCED, produced("d", 0, HOME, -1, ProducedStatus.IN_DOUBT), produced("d", 0, AWAY, 2031))
    rows = [replace(consumed("d", 0, *where), key="other") for where in ((HOME, TOPIC, 22), (AWAY, TOPIC, 2041))]
    twice = tuple(replace(row, key="other") for row in in_order(("d", 0), ("d", 0), first=9))
    trip = replace(
        CROSSED,
        history=History(doubted, (*CROSSED.history.consumed, *rows)),
        home_log=(*CROSSED.home_log, *twice),
        away_log=(*CROSSED.away_log, *twice),
        before_return=(*(CROSSED.before_return or ()), twice[0]),
    )
    report = check_round_trip(trip)
    assert (failed(report), report.groups[0].again_failover, report.groups[0].again_sent) == ([], 1, 1)
    more = replace(trip, away_log=(*trip.away_log, replace(twice[0], offset=20)))
    assert failed(check_round_trip(more)) == ["no record is there twice"]


def test_shared_topic_record_sent_twice_is_read_once_for_each_time_it_is_there() -> None:
    doubted = (*PRODUCED, produced("d", 0, HOME, -1, ProducedStatus.IN_DOUBT), produced("d", 0, AWAY, 2031))
    twice = tuple(replace(row, key="other") for row in in_order(("d", 0), ("d", 0), first=9))
    trip = replace(
        CROSSED,
        history=replace(CROSSED.history, produced=doubted),
        home_log=(*CROSSED.home_log, *twice),
        away_log=(*CROSSED.away_log, *twice),
        before_return=(*(CROSSED.before_return or ()), twice[0]),
    )

    def read(*places: tuple[str, int, int]) -> TripReport:
        rows = [
            replace(consumed("d", 0, cluster, TOPIC, ms), key="other", offset=offset) for cluster, offset, ms in places
        ]
        return check_round_trip(replace(trip, history=History(doubted, (*CROSSED.history.consumed, *rows))))

    first, second = (AWAY, 9, 2041), (AWAY, 10, 2042)
    for places in ((first, second), (first, (HOME, 10, 3005))):
        report = read(*places)
        assert (failed(report), report.groups[0].again, report.groups[0].again_sent) == ([], 0, 1)
    assert read((HOME, 9, 22), first, second).groups[0].again == 0
    assert [
        read(*places).groups[0].again for places in ((first, (AWAY, 9, 2050)), (first, second, (HOME, 10, 3005)))
    ] == [1, 1]


def test_shared_topic_record_that_its_producer_found_on_the_other_side_was_not_sent_again() -> None:
    found = (*PRODUCED, produced("b", 0, AWAY, 2031, ProducedStatus.MIRRORED))
    trip = replace(CROSSED, history=replace(CROSSED.history, produced=found))
    assert failed(check_round_trip(trip)) == failed(check_round_trip(CROSSED))
    twice = replace(trip, away_log=(*trip.away_log, *in_order(("b", 3), first=20)))
    assert "no record is there twice" in failed(check_round_trip(twice))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"home_log": CROSSED.home_log[:-2]}, "both clusters have the same records"),
        ({"away_log": CROSSED.away_log[:-1]}, "both clusters have the same records"),
        ({"away_log": in_order(("a0", 0), ("b", 3), ("a1", 1), ("c", 4))}, "the tail is accounted for"),
        ({"home_log": CROSSED.home_log[1:], "away_log": CROSSED.away_log[1:]}, "no acknowledged record is lost"),
        ({"home_log": (*CROSSED.home_log, *in_order(("b", 3), first=9))}, "no record is there twice"),
        ({"before_return": ()}, "the tail is accounted for"),
        ({"home_log": in_order(("a0", 0), ("b", 3), ("a1", 1), ("a2", 2), ("c", 4))}, "LEFT has every key in order"),
        (
            {"away_log": in_order(("a0", 0), ("c", 4), ("b", 3), ("a1", 1), ("a2", 2))},
            "RIGHT has every key in order, apart from the tail",
        ),
        ({"history": History(PRODUCED, (*READ, ABROAD, HOME_AGAIN))}, "group g skips nothing"),
        (
            {"away_log": CROSSED.away_log[:-1], "history": History(PRODUCED, CROSSED.history.consumed[:-1])},
            "group g skips nothing",
        ),
        (
            {"history": History(PRODUCED, (*CROSSED.history.consumed, consumed("b", 3, HOME, TOPIC, 3005)))},
            "group g reads again only what the failover made unavoidable",
        ),
        (
            {"history": History(PRODUCED, (*READ, *CROSSED.history.consumed[3:], replace(ABROAD, at_ms=3020)))},
            "group g sees every key in order",
        ),
        ({"history": History(PRODUCED, CROSSED.history.consumed, open=("x",))}, "the histories are whole"),
    ],
)  # fmt: skip
def test_shared_topic_violations_fail(changes: dict[str, Any], name: str) -> None:
    assert name in failed(check_round_trip(replace(CROSSED, **changes)))
