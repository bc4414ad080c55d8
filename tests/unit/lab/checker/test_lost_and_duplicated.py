"""The checker on tiny literal histories: a clean move passes, and every planted fault is found and nothing else."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drlib.lab.checker import lost_and_duplicated as checker
from drlib.lab.checker.history import CommitStatus, Committed, Consumed, Mirrored, Produced, ProducedStatus
from drlib.lab.checker.lost_and_duplicated import check
from drlib.lab.checker.report import CheckInput, CheckReport
from drlib.runs.check import Check, Verdict

ACKED, IN_DOUBT, FOUND = ProducedStatus.ACKED, ProducedStatus.IN_DOUBT, ProducedStatus.MIRRORED


def acked(name: int, key: str, n: int, partition: int, offset: int, cluster: str = "LEFT") -> Produced:
    return Produced(
        str(name), key, n, cluster, "flights", partition, offset, 1000 * name, 1000 * name + 5, ACKED, 7000 + name
    )


def mirrored(name: int, key: str, n: int, partition: int, offset: int, topic: str = "LEFT.flights") -> Mirrored:
    return Mirrored(topic, partition, offset, str(name), key, n, 1000 * name, 7000 + name)


def consumed(cluster: str, topic: str, partition: int, offset: int, name: int, key: str, n: int) -> Consumed:
    return Consumed("arrivals", cluster, topic, partition, offset, str(name), key, n, 1000 * name + 50)


def committed(
    cluster: str, topic: str, partition: int, offset: int, status: CommitStatus = CommitStatus.ACKED
) -> Committed:
    return Committed("arrivals", cluster, topic, partition, offset, 9000, status)


# Six flights acknowledged on LEFT in two partitions; a marker of the mirror shifts the offsets of partition 1 by one on
# RIGHT. The group has committed up to 4 and 5 of them, reads the rest on RIGHT, then the two that came after the move.
PRODUCED = (
    acked(0, "UA1", 0, 0, 0),
    acked(1, "AA2", 0, 1, 0),
    acked(2, "UA1", 1, 0, 1),
    acked(3, "AA2", 1, 1, 1),
    acked(4, "UA1", 2, 0, 2),
    acked(5, "AA2", 2, 1, 2),
    acked(6, "UA1", 3, 0, 0, "RIGHT"),
    acked(7, "AA2", 3, 1, 0, "RIGHT"),
)
MIRRORED = (
    mirrored(0, "UA1", 0, 0, 0),
    mirrored(2, "UA1", 1, 0, 1),
    mirrored(4, "UA1", 2, 0, 2),
    mirrored(1, "AA2", 0, 1, 1),
    mirrored(3, "AA2", 1, 1, 2),
    mirrored(5, "AA2", 2, 1, 3),
    mirrored(6, "UA1", 3, 0, 0, "flights"),
    mirrored(7, "AA2", 3, 1, 0, "flights"),
)
CONSUMED = (
    consumed("LEFT", "flights", 0, 0, 0, "UA1", 0),
    consumed("LEFT", "flights", 1, 0, 1, "AA2", 0),
    consumed("LEFT", "flights", 0, 1, 2, "UA1", 1),
    consumed("RIGHT", "LEFT.flights", 1, 2, 3, "AA2", 1),
    consumed("RIGHT", "LEFT.flights", 0, 2, 4, "UA1", 2),
    consumed("RIGHT", "LEFT.flights", 1, 3, 5, "AA2", 2),
    consumed("RIGHT", "flights", 0, 0, 6, "UA1", 3),
    consumed("RIGHT", "flights", 1, 0, 7, "AA2", 3),
)
COMMITTED = (
    committed("LEFT", "flights", 0, 1),
    committed("LEFT", "flights", 1, 1),
    committed("LEFT", "flights", 0, 2),
    committed("RIGHT", "LEFT.flights", 0, 3),
    committed("RIGHT", "LEFT.flights", 1, 4),
    committed("RIGHT", "flights", 0, 1),
    committed("RIGHT", "flights", 1, 1),
)
CLEAN = CheckInput("LEFT", "RIGHT", "flights", "LEFT.flights", ("arrivals",), PRODUCED, CONSUMED, COMMITTED, MIRRORED)

# The same under identical names: RIGHT's one topic has the copies, and behind them what was written there after the move.
LOCAL_AT = {"6": 3, "7": 4}
ONE_TOPIC = replace(
    CLEAN,
    remote_topic="flights",
    produced=tuple(replace(row, offset=LOCAL_AT.get(row.id, row.offset)) for row in PRODUCED),
    mirrored=tuple(replace(row, topic="flights", offset=LOCAL_AT.get(row.id, row.offset)) for row in MIRRORED),
    consumed=tuple(replace(row, topic="flights", offset=LOCAL_AT.get(row.id, row.offset)) for row in CONSUMED),
    committed=(*COMMITTED[:3], committed("RIGHT", "flights", 0, 4), committed("RIGHT", "flights", 1, 5)),
    moved_at={0: 3, 1: 4},
)

LOST = "no acknowledged record is lost"
TAIL = "what is lost is the unmirrored tail"
TWICE = "no record is there twice"
ORDER = "every key is in order"
ALTERED = "no record is altered"
INVENTED = "no record is invented"
AFTER = "nothing acknowledged after the move is missing"
AGAIN = "group arrivals reads nothing again"
SKIPPED = "group arrivals skips nothing"
GROUP_ORDER = "group arrivals sees every key in order"
WHOLE = "the histories are whole"
ALL = {LOST, TAIL, TWICE, ORDER, ALTERED, INVENTED, AFTER, AGAIN, SKIPPED, GROUP_ORDER, WHOLE}


def with_verdict(report: CheckReport, verdict: Verdict) -> set[str]:
    return {finding.name for finding in report.findings if finding.verdict is verdict}


def without(name: int, topic: str = "LEFT.flights") -> tuple[Mirrored, ...]:
    return tuple(row for row in MIRRORED if (row.topic, row.id) != (topic, str(name)))


def finding(report: CheckReport, name: str) -> Check:
    return next(f for f in report.findings if f.name == name)


def test_check_clean_move_passes() -> None:
    report = check(CLEAN)
    assert with_verdict(report, Verdict.PASS) == ALL
    assert report.verdict is Verdict.PASS
    assert (report.produced, report.mirrored, report.lost_count, report.lost_in_tail) == (6, 6, 0, True)
    assert (report.rpo_records, report.rpo_seconds, report.invented_count) == (0, 0.0, 0)
    (group,) = report.groups
    assert (group.re_read, group.skipped, group.out_of_order, group.reached, group.behind) == (0, 0, 0, True, 0)
    assert group.last_commit == ((0, 2), (1, 1))
    assert group.evidence == (
        "8 processed: 6 written to LEFT, 2 to RIGHT after the move; 0 yet to read; "
        "last committed on LEFT, by partition: 0 at 2, 1 at 1"
    )
    assert (report.out_of_order_count, report.altered_count, report.duplicated_count) == (0, 0, 0)
    assert finding(report, WHOLE).evidence == "every history ends with its end line"


def test_check_lost_tail_is_rpo() -> None:
    moved = replace(CLEAN, mirrored=without(5), consumed=tuple(r for r in CONSUMED if r.id != "5"))
    report = check(moved)
    assert with_verdict(report, Verdict.FAIL) == {LOST}
    assert (report.lost_count, report.lost_in_tail, report.rpo_records, report.rpo_seconds) == (1, True, 1, 2.0)
    assert [(r.id, r.key, r.partition, r.offset, r.acked_ms) for r in report.lost] == [("5", "AA2", 1, 2, 5005)]
    assert check(replace(moved, rpo_records_allowed=1)).verdict is Verdict.PASS
    assert "1 of 6" in finding(report, LOST).evidence


@pytest.mark.parametrize(
    ("allowed", "name", "verdict", "said"),
    [
        (0, LOST, Verdict.FAIL, ""),
        (1, "at most 1 acknowledged records are lost, as the objective says", Verdict.FAIL, "the objective allows 1"),
        (
            2,
            "at most 2 acknowledged records are lost, as the objective says",
            Verdict.CONDITIONS,
            "within the objective",
        ),
        (None, "lost records are counted", Verdict.CONDITIONS, "no objective limits them"),
    ],
)
def test_check_lost_records_name_verdict_and_figure_agree(
    allowed: int | None, name: str, verdict: Verdict, said: str
) -> None:
    lost = tuple(row for row in without(5) if row.id != "4" or row.topic == "flights")
    report = check(replace(CLEAN, mirrored=lost, rpo_records_allowed=allowed))
    about = finding(report, name)
    assert about.verdict is verdict
    assert about.evidence.startswith("2 of 6 records that LEFT acknowledged are not in LEFT.flights on RIGHT")
    assert said in about.evidence
    assert not [f for f in report.findings if f.name == LOST and f.verdict is not Verdict.FAIL]


def test_check_counts_of_acknowledged_lost_and_mirrored_records_add_up() -> None:
    """A cluster that is killed has records whose producers got no answer, and they may be mirrored."""
    doubt = replace(PRODUCED[2], status=IN_DOUBT, partition=-1, offset=-1, acked_ms=-1)
    report = check(replace(CLEAN, produced=(*PRODUCED[:2], doubt, *PRODUCED[3:]), mirrored=without(5)))
    assert (report.produced, report.mirrored, report.lost_count) == (5, 5, 1)
    about = next(each for each in report.findings if "1 of 5" in each.evidence)
    said = (
        "1 of 5 records that LEFT acknowledged are not in LEFT.flights on RIGHT; 1 that are there were not acknowledged"
    )
    assert about.evidence.startswith(said)


@pytest.mark.parametrize("allowed", [0, 500, None])
def test_check_no_lost_record_passes_as_such_whatever_the_objective(allowed: int | None) -> None:
    about = finding(check(replace(CLEAN, rpo_records_allowed=allowed)), LOST)
    assert (about.verdict, about.evidence[:6]) == (Verdict.PASS, "0 of 6")


def test_check_loss_in_seconds_is_of_send_times_whatever_the_target_stamps() -> None:
    stamped = tuple(replace(row, timestamp_ms=row.timestamp_ms + 10_000) for row in without(5))
    assert check(replace(CLEAN, mirrored=stamped)).rpo_seconds == 2.0


def test_check_loss_in_seconds_is_of_the_partition_that_lost_most_whatever_another_one_mirrored_later() -> None:
    idle = [acked(n, "A", n, 0, n) for n in range(61)]  # one a second; all but the first are lost
    busy = [acked(n, "B", n - 61, 1, n - 61) for n in range(61, 200)]  # all mirrored, up to much later
    there = tuple(
        mirrored(row.n + 61 * row.partition, row.key, row.n, row.partition, row.offset) for row in [idle[0], *busy]
    )
    report = check(replace(CLEAN, produced=(*idle, *busy), mirrored=there))
    assert (report.lost_count, report.lost_in_tail, report.rpo_seconds) == (60, True, 60.0)
    assert report.rpo_seconds_by_partition == {0: 60.0}


@pytest.mark.parametrize(
    ("kept", "in_tail"),
    [
        ((0,), True),  # of partition 0 the first is there, of partition 1 none
        ((), True),
        ((0, 2, 4, 1), True),
        ((0, 2, 4, 3), False),
    ],
)
def test_check_loss_is_in_the_tail_where_nothing_of_its_partition_follows(kept: tuple[int, ...], in_tail: bool) -> None:
    there = tuple(row for row in MIRRORED if row.topic == "flights" or int(row.id) in kept)
    assert check(replace(CLEAN, mirrored=there)).lost_in_tail is in_tail


def test_check_lost_record_whose_offset_another_one_took_is_not_in_the_tail() -> None:
    """The source's log was truncated and written again."""
    produced = (*PRODUCED[:5], replace(PRODUCED[5], id="50"), *PRODUCED[5:])
    report = check(replace(CLEAN, produced=produced))
    assert ([one.id for one in report.lost], report.lost_in_tail) == (["50"], False)


def test_check_rows_of_other_groups_and_topics_do_not_count() -> None:
    others = tuple(replace(row, group="departures", at_ms=1) for row in CONSUMED[3:])
    elsewhere = tuple(replace(row, topic="RIGHT.flights") for row in CONSUMED)
    commits = (
        *(replace(row, group="departures", offset=9) for row in COMMITTED),
        *(replace(row, topic="RIGHT.flights", offset=9) for row in COMMITTED),
    )
    noisy = replace(CLEAN, consumed=(*CONSUMED, *others, *elsewhere), committed=(*COMMITTED, *commits))
    assert check(noisy) == check(CLEAN)


def test_check_loss_before_mirrored_records_fails() -> None:
    report = check(replace(CLEAN, mirrored=without(2), rpo_records_allowed=1))
    assert with_verdict(report, Verdict.FAIL) == {TAIL}
    assert (report.lost_in_tail, report.rpo_seconds) == (False, 2.0)


def test_check_duplicate_in_remote_topic_fails() -> None:
    report = check(replace(CLEAN, mirrored=(*MIRRORED, mirrored(5, "AA2", 2, 1, 4))))
    assert {TWICE, SKIPPED} >= with_verdict(report, Verdict.FAIL) >= {TWICE}
    assert report.duplicated_count == 1
    assert report.duplicated[0].places == ("LEFT.flights-1@3", "LEFT.flights-1@4")


def test_check_mirrored_record_sent_again_is_duplicate() -> None:
    extra = Mirrored("flights", 1, 1, "5", "AA2", 2, 5000, None)
    report = check(replace(CLEAN, mirrored=(*MIRRORED, extra)))
    assert with_verdict(report, Verdict.FAIL) == {TWICE}
    assert report.duplicated[0].places == ("LEFT.flights-1@3", "flights-1@1")


def test_check_swapped_records_are_out_of_order() -> None:
    swapped = (*without(2)[:1], mirrored(4, "UA1", 2, 0, 1), mirrored(2, "UA1", 1, 0, 2), *without(2)[2:])
    report = check(replace(CLEAN, mirrored=swapped))
    assert ORDER in with_verdict(report, Verdict.FAIL)
    (one,) = report.out_of_order
    assert (one.where, one.key, one.n, one.after, one.place) == ("LEFT.flights", "UA1", 1, 2, "LEFT.flights-0@2")


def test_check_older_record_in_local_topic_is_out_of_order() -> None:
    late = (*PRODUCED[:6], replace(PRODUCED[6], n=1), PRODUCED[7])
    there = (*MIRRORED[:6], replace(MIRRORED[6], n=1), MIRRORED[7])
    read = (*CONSUMED[:6], replace(CONSUMED[6], n=1), CONSUMED[7])
    report = check(replace(CLEAN, produced=late, mirrored=there, consumed=read))
    assert with_verdict(report, Verdict.FAIL) == {ORDER, GROUP_ORDER}
    assert report.groups[0].out_of_order == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"digest": 1}, "key, value, headers or timestamp"),
        ({"key": "AA3"}, "key or number"),
        ({"n": 9}, "key or number"),
        ({"partition": 0, "offset": 3}, "partition, was 1"),
    ],
)
def test_check_altered_record_fails(change: dict[str, Any], what: str) -> None:
    changed = tuple(replace(row, **change) if row.id == "5" else row for row in MIRRORED)
    report = check(replace(CLEAN, mirrored=changed))
    assert ALTERED in with_verdict(report, Verdict.FAIL)
    assert [(one.id, one.what) for one in report.altered] == [("5", what)]


def test_check_invented_record_fails() -> None:
    foreign = Mirrored("LEFT.flights", 0, 3, "", "", -1, 0, None)
    assert INVENTED in with_verdict(check(replace(CLEAN, mirrored=(*MIRRORED, foreign))), Verdict.FAIL)
    # a producer that was killed wrote records its history may not know
    report = check(replace(CLEAN, mirrored=(*MIRRORED, foreign), open=("producer",)))
    assert {INVENTED, WHOLE} <= with_verdict(report, Verdict.UNKNOWN)


def test_check_record_missing_on_target_fails() -> None:
    report = check(replace(CLEAN, mirrored=without(7, "flights")))
    assert with_verdict(report, Verdict.FAIL) == {AFTER}


def test_check_group_one_record_read_again() -> None:
    twice = consumed("RIGHT", "LEFT.flights", 0, 1, 2, "UA1", 1)
    report = check(replace(CLEAN, consumed=(*CONSUMED[:3], replace(twice, at_ms=2990), *CONSUMED[3:])))
    assert with_verdict(report, Verdict.FAIL) == {AGAIN}
    assert report.groups[0].re_read == 1
    assert "read again: 2;" in report.groups[0].evidence


def test_check_group_record_below_last_commit_is_read_again() -> None:
    once = tuple(r for r in CONSUMED if r.id != "2")
    again = replace(consumed("RIGHT", "LEFT.flights", 0, 1, 2, "UA1", 1), at_ms=2990)
    report = check(replace(CLEAN, consumed=(*once, again)))
    assert AGAIN in with_verdict(report, Verdict.FAIL)
    assert report.groups[0].re_read == 1


def test_check_group_one_record_skipped() -> None:
    report = check(replace(CLEAN, consumed=tuple(r for r in CONSUMED if r.id != "3")))
    assert with_verdict(report, Verdict.FAIL) == {SKIPPED}
    assert report.groups[0].skipped == 1
    assert "LEFT.flights-1@2" in report.groups[0].evidence


WITHOUT_0 = (COMMITTED[1], *COMMITTED[3:])  # of partition 0 the group had committed nothing on LEFT


def test_check_partition_without_a_source_commit_is_due_from_its_first_record() -> None:
    there = consumed("RIGHT", "LEFT.flights", 0, 0, 0, "UA1", 0)
    rows = (there, *CONSUMED[1:2], replace(CONSUMED[2], cluster="RIGHT", topic="LEFT.flights"), *CONSUMED[3:])
    assert check(replace(CLEAN, consumed=rows, committed=WITHOUT_0)).verdict is Verdict.PASS
    (group,) = check(replace(CLEAN, consumed=rows[1:], committed=WITHOUT_0)).groups
    assert (group.re_read, group.skipped) == (0, 1)


def test_check_records_before_the_source_commit_are_not_due() -> None:
    """A group whose history begins later than its commits."""
    (group,) = check(replace(CLEAN, consumed=CONSUMED[3:])).groups
    assert (group.re_read, group.skipped) == (0, 0)


def test_check_local_records_yet_to_read_are_no_skip() -> None:
    rows = tuple(row for row in CONSUMED if row.id != "7")
    report = check(replace(CLEAN, consumed=rows, committed=COMMITTED[:-1]))
    assert report.verdict is Verdict.PASS
    assert (report.groups[0].reached, report.groups[0].behind) == (True, 1)
    assert finding(report, SKIPPED).evidence == report.groups[0].evidence


def test_check_group_that_read_nothing_on_the_target_proves_nothing_there() -> None:
    """It had read all that was mirrored before the move, and came to the target never."""
    before = [row for row in CONSUMED if row.cluster == "LEFT"] + [
        consumed("LEFT", "flights", 1, 1, 3, "AA2", 1),
        consumed("LEFT", "flights", 0, 2, 4, "UA1", 2),
        consumed("LEFT", "flights", 1, 2, 5, "AA2", 2),
    ]
    positions = (committed("LEFT", "flights", 0, 3), committed("LEFT", "flights", 1, 3))
    move = replace(CLEAN, consumed=tuple(before), committed=positions)
    report = check(move)
    assert with_verdict(report, Verdict.UNKNOWN) == {AGAIN, SKIPPED}
    assert "it has read nothing on RIGHT" in report.groups[0].evidence
    nothing_due = check(
        replace(move, produced=PRODUCED[:6], mirrored=tuple(row for row in MIRRORED if row.topic == "LEFT.flights"))
    )
    assert nothing_due.verdict is Verdict.PASS


def test_check_skip_is_a_failure_before_the_remote_topic_is_read_to_its_end() -> None:
    fewer = tuple(r for r in CONSUMED if r.id not in ("3", "5", "6", "7"))
    commits = (*COMMITTED[:3], committed("RIGHT", "LEFT.flights", 0, 3), committed("RIGHT", "LEFT.flights", 1, 3))
    report = check(replace(CLEAN, consumed=fewer, committed=commits))
    assert (report.groups[0].reached, report.groups[0].skipped) == (False, 1)
    assert SKIPPED in with_verdict(report, Verdict.FAIL)
    assert finding(report, SKIPPED).evidence.startswith("it has not read the remote topic to its end; ")


def test_check_group_evidence_names_the_first_disorder_only() -> None:
    read = (*CONSUMED[:6], replace(CONSUMED[6], n=1), replace(CONSUMED[7], n=1))
    (group,) = check(replace(CLEAN, consumed=read)).groups
    assert group.out_of_order == 2
    assert group.evidence.count("out of order: ") == 1


def test_check_group_local_record_skipped() -> None:
    report = check(replace(CLEAN, consumed=tuple(r for r in CONSUMED if r.id != "6")))
    assert with_verdict(report, Verdict.FAIL) == {SKIPPED}


def test_check_group_with_unread_remote_topic_is_unknown() -> None:
    fewer = tuple(r for r in CONSUMED if r.id not in ("5", "6", "7"))
    commits = (*COMMITTED[:3], committed("RIGHT", "LEFT.flights", 0, 3), committed("RIGHT", "LEFT.flights", 1, 3))
    report = check(replace(CLEAN, consumed=fewer, committed=commits))
    assert with_verdict(report, Verdict.UNKNOWN) == {SKIPPED}
    assert (report.groups[0].reached, report.groups[0].behind, report.groups[0].skipped) == (False, 3, 0)


def test_check_group_unanswered_commit_shows_as_skipped() -> None:
    # the group's commit of 2 for partition 1 got no answer, and it continued on RIGHT behind record 3
    commits = (*COMMITTED[:3], committed("LEFT", "flights", 1, 2, CommitStatus.UNKNOWN), *COMMITTED[3:])
    report = check(replace(CLEAN, consumed=tuple(r for r in CONSUMED if r.id != "3"), committed=commits))
    assert with_verdict(report, Verdict.FAIL) == {SKIPPED}
    assert "LEFT did not answer the last commit" in report.groups[0].evidence
    # settled: the record counts as processed on LEFT, and its position as the last commit
    settled = consumed("LEFT", "flights", 1, 1, 3, "AA2", 1)
    rows = (*CONSUMED[:3], settled, *(r for r in CONSUMED[3:] if r.id != "3"))
    resolved = (*commits[:4], committed("LEFT", "flights", 1, 2, CommitStatus.RESOLVED), *commits[4:])
    report = check(replace(CLEAN, consumed=rows, committed=resolved))
    assert report.verdict is Verdict.PASS
    assert report.groups[0].last_commit == ((0, 2), (1, 2))


def test_check_group_without_source_commit_is_unknown() -> None:
    report = check(replace(CLEAN, committed=COMMITTED[3:]))
    assert with_verdict(report, Verdict.UNKNOWN) >= {AGAIN, SKIPPED}
    assert report.verdict is Verdict.UNKNOWN
    assert (report.groups[0].re_read, report.groups[0].skipped) == (None, None)


def test_check_record_in_doubt_is_neither_lost_nor_invented() -> None:
    doubt = replace(PRODUCED[5], status=IN_DOUBT, partition=-1, offset=-1, acked_ms=-1)
    found = replace(doubt, cluster="RIGHT", topic="LEFT.flights", partition=1, offset=3, status=FOUND)
    report = check(replace(CLEAN, produced=(*PRODUCED[:5], doubt, found, *PRODUCED[6:])))
    assert report.verdict is Verdict.PASS
    assert (report.produced, report.mirrored) == (5, 6)


def test_check_record_in_doubt_sent_again_passes() -> None:
    doubt = replace(PRODUCED[5], status=IN_DOUBT, partition=-1, offset=-1, acked_ms=-1)
    sent_again = replace(acked(5, "AA2", 2, 1, 0, "RIGHT"), digest=1)
    there = (
        *(row for row in without(5) if row.id != "7"),
        replace(mirrored(5, "AA2", 2, 1, 0, "flights"), digest=1),
        mirrored(7, "AA2", 3, 1, 1, "flights"),
    )
    read = (
        *(row for row in CONSUMED if row.id not in ("5", "7")),
        consumed("RIGHT", "flights", 1, 0, 5, "AA2", 2),
        consumed("RIGHT", "flights", 1, 1, 7, "AA2", 3),
    )
    commits = (*COMMITTED, committed("RIGHT", "flights", 1, 2))
    produced = (*PRODUCED[:5], doubt, sent_again, *PRODUCED[6:])
    report = check(replace(CLEAN, produced=produced, mirrored=there, consumed=read, committed=commits))
    assert with_verdict(report, Verdict.FAIL) == set()
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("gap", "unknown"),
    [
        ({"produced": None}, {LOST, TAIL, ALTERED, INVENTED, AFTER, AGAIN, SKIPPED, WHOLE}),
        ({"produced": ()}, {LOST, TAIL, ALTERED, INVENTED, AFTER, AGAIN, SKIPPED}),
        ({"mirrored": None}, ALL),
        ({"consumed": None}, {AGAIN, SKIPPED, GROUP_ORDER, WHOLE}),
        ({"consumed": ()}, {AGAIN, SKIPPED, GROUP_ORDER}),
        ({"committed": None}, {AGAIN, WHOLE}),
        ({"torn": 1}, {WHOLE}),
        ({"open": ("arrivals.history",)}, {WHOLE}),
        ({"missing": ("arrivals.history",)}, {WHOLE}),
    ],
)
def test_check_missing_evidence_is_unknown(gap: dict[str, Any], unknown: set[str]) -> None:
    report = check(replace(CLEAN, **gap))
    assert unknown <= with_verdict(report, Verdict.UNKNOWN)
    assert with_verdict(report, Verdict.FAIL) == set()
    assert report.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("gap", "evidence"),
    [({"consumed": ()}, "its history holds no record"), ({"mirrored": None}, "the target was not scanned")],
)
def test_check_group_without_evidence_has_reached_nothing(gap: dict[str, Any], evidence: str) -> None:
    report = check(replace(CLEAN, **gap))
    assert (report.groups[0].reached, report.groups[0].evidence) == (False, evidence)
    assert (report.out_of_order_count is None) is ("mirrored" in gap)


def test_check_group_without_any_commit_had_committed_nothing() -> None:
    assert "by partition: nothing" in check(replace(CLEAN, committed=())).groups[0].evidence


def test_check_one_digest_is_enough_to_compare() -> None:
    one = tuple(replace(row, digest=row.digest if row.id == "5" else None) for row in MIRRORED)
    report = check(replace(CLEAN, mirrored=one))
    assert (report.verdict, report.altered_count) == (Verdict.PASS, 0)


def test_check_without_digest_is_unknown() -> None:
    bare = tuple(replace(row, digest=None) for row in MIRRORED)
    report = check(replace(CLEAN, mirrored=bare))
    assert with_verdict(report, Verdict.UNKNOWN) == {ALTERED}
    assert report.altered_count is None


def test_check_lists_are_bounded_and_counts_complete() -> None:
    many = tuple(acked(n, f"K{n}", 0, 0, n) for n in range(100))
    report = check(replace(CLEAN, produced=many, mirrored=()))
    assert (len(report.lost), report.lost_count, report.rpo_seconds) == (20, 100, 99.0)


def test_checker_shares_no_code_with_the_engine() -> None:
    source = Path(checker.__file__).read_text()
    imported = [node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    own = {module for module in imported if module is not None and module.startswith("drlib")}
    assert own == {
        "drlib.lab.checker.history",
        "drlib.lab.checker.key_order",
        "drlib.lab.checker.report",
        "drlib.runs.check",
    }


def test_check_identical_names_clean_move_passes_and_counts_copies_alone() -> None:
    report = check(ONE_TOPIC)
    assert with_verdict(report, Verdict.PASS) == ALL
    assert (report.produced, report.mirrored, report.lost_count, report.groups[0].reached) == (6, 6, 0, True)


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"mirrored": tuple(row for row in ONE_TOPIC.mirrored or () if row.id != "5")}, {LOST}),
        ({"mirrored": tuple(row for row in ONE_TOPIC.mirrored or () if row.id != "2")}, {LOST, TAIL}),
        ({"mirrored": tuple(row for row in ONE_TOPIC.mirrored or () if row.id != "7")}, {AFTER}),
        ({"mirrored": (*(ONE_TOPIC.mirrored or ()), mirrored(4, "UA1", 2, 0, 4, "flights"))}, {TWICE}),
        ({"moved_at": {}}, {LOST}),  # a pointer that does not say where the topic ended proves no copy
        ({"consumed": tuple(row for row in ONE_TOPIC.consumed or () if row.id != "5")}, {SKIPPED}),
        ({"consumed": (*(ONE_TOPIC.consumed or ()), consumed("RIGHT", "flights", 0, 0, 0, "UA1", 0))}, {AGAIN}),
    ],
)
def test_check_identical_names_each_fault_is_found(changes: dict[str, Any], failed: set[str]) -> None:
    assert with_verdict(check(replace(ONE_TOPIC, **changes)), Verdict.FAIL) == failed


def test_check_identical_names_group_that_has_not_read_the_copies_is_unknown() -> None:
    early = (*COMMITTED[:3], committed("RIGHT", "flights", 0, 2), committed("RIGHT", "flights", 1, 5))
    report = check(replace(ONE_TOPIC, committed=early))
    assert finding(report, SKIPPED).verdict is Verdict.UNKNOWN
    assert not report.groups[0].reached
