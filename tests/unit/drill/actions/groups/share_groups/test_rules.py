"""Where a share group begins on another cluster, and what it gets again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.actions.groups.rules import LogBounds, blocked
from drlib.drill.actions.groups.share_groups import rules
from drlib.drill.actions.groups.share_groups.rules import ShareLeft, ShareMove
from drlib.kafka.share_groups.state import ShareState
from drlib.mirror.share_groups.known import KnownShare
from drlib.mirror.share_groups.translate import ShareTranslation
from drlib.model import TopicPartition, Translation, TranslationKind
from drlib.runs.check import Verdict

AT, THERE = TopicPartition("orders", 0), TopicPartition("LEFT.orders", 0)
BOUNDS = LogBounds(0, 200)
KEY = ("g", THERE)
EXACT = Translation(110, TranslationKind.EXACT)


def item(
    translation: Translation = EXACT,
    complete: tuple[tuple[int, int], ...] | None = ((112, 114), (115, 120)),
    count: int | None = None,
) -> ShareTranslation:
    known = KnownShare(ShareState(10, None if complete is None else ((12, 14), (15, 20)), count), 99)
    return ShareTranslation("g", AT, known, THERE, translation, complete)


def test_decide_begins_at_the_translated_offset_and_writes_what_is_complete_behind_it() -> None:
    move = rules.decide(item(), BOUNDS, None)
    assert (move.start, move.complete, move.left) == (110, ((112, 114), (115, 120)), None)
    assert (move.sets_start, move.to_write, move.redelivered) == (True, 7, 7)
    (carried,) = rules.after_writing([move], {KEY: ""}, {})
    assert (carried.carried, carried.redelivered) == (True, 0)
    (refused,) = rules.after_writing([move], {KEY: "CLUSTER_AUTHORIZATION_FAILED"}, {})
    assert (refused.carried, refused.redelivered) == (False, 7)


def test_decide_complete_records_at_the_start_move_it_up() -> None:
    move = rules.decide(item(complete=((110, 114), (115, 120))), BOUNDS, None)
    assert (move.start, move.complete) == (114, ((115, 120),))


def test_decide_group_that_is_further_ahead_there_is_left_unless_it_may_go_back() -> None:
    there = ShareState(111, ((113, 114),))
    move = rules.decide(item(), BOUNDS, there)
    assert (move.start, move.left) == (None, ShareLeft.AHEAD)
    assert blocked([move]) == {"g": (move,)}
    back = rules.decide(item(), BOUNDS, there, rewind=True)
    assert (back.start, back.complete, back.before) == (110, ((112, 114), (115, 120)), 111)


def test_decide_group_with_the_same_start_there_keeps_what_it_has_and_gets_the_rest() -> None:
    move = rules.decide(item(), BOUNDS, ShareState(110, ((115, 118), (130, 131))))
    assert (move.start, move.complete) == (110, ((112, 114), (115, 120), (130, 131)))
    assert (move.sets_start, move.to_write) == (False, 4)
    (refused,) = rules.after_writing([move], {KEY: "no"}, {})
    assert refused.redelivered == 4


def test_decide_start_that_moves_forward_forgets_what_is_not_written_again() -> None:
    move = rules.decide(item(), BOUNDS, ShareState(100, ((130, 140),)))
    assert (move.start, move.complete[-1], move.to_write) == (110, (130, 140), 17)


@pytest.mark.parametrize(
    ("translation", "bounds", "left", "redelivered"),
    [
        (EXACT, None, ShareLeft.NOT_MIRRORED, 0),
        (Translation(None, TranslationKind.UNKNOWN), BOUNDS, ShareLeft.UNKNOWN, None),
        (Translation(120, TranslationKind.UNKNOWN), BOUNDS, ShareLeft.UNKNOWN, None),  # a guess is not written
        (Translation(210, TranslationKind.EXACT), BOUNDS, ShareLeft.PAST_END, None),
    ],
)
def test_decide_without_a_certain_offset_leaves_the_partition(
    translation: Translation, bounds: LogBounds | None, left: ShareLeft, redelivered: int | None
) -> None:
    move = rules.decide(item(translation, ()), bounds, None)
    assert (move.start, move.left, move.redelivered) == (None, left, redelivered)


def test_decide_never_mirrored_begins_at_the_log_start() -> None:
    move = rules.decide(item(Translation(None, TranslationKind.NEVER_MIRRORED), ()), LogBounds(5, 9), None)
    assert move.start == 5


@pytest.mark.parametrize(("count", "redelivered"), [(6, 6), (None, None)])
def test_decide_unknown_acknowledgements_are_delivered_again(count: int | None, redelivered: int | None) -> None:
    move = rules.decide(item(complete=None, count=count), BOUNDS, None)
    assert (move.complete, move.redelivered) == ((), redelivered)
    assert rules.redelivered_by_group([move]) == {"g": redelivered}


def test_decide_bounded_start_adds_its_bound() -> None:
    move = rules.decide(item(Translation(110, TranslationKind.BOUNDED, 3), ()), BOUNDS, None)
    assert move.redelivered == 3


def moved(**changes: object) -> ShareMove:
    return replace(rules.decide(item(), BOUNDS, None), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("move", "again", "verdict", "words"),
    [
        (moved(carried=True), 0, Verdict.PASS, "7 acknowledged records behind the start offsets are carried over"),
        (moved(carried=False, why_not="NO"), 7, Verdict.CONDITIONS, "7 are delivered again: NO"),
        (moved(carried=True), 2, Verdict.FAIL, "2 acknowledged records will be delivered again, 0 were predicted"),
        (moved(carried=True, checkpointed=True), 0, Verdict.CONDITIONS, "after 1970-01-01 00:00:00 UTC is not known"),
        (moved(unknown=None), None, Verdict.CONDITIONS, "how many are delivered again is not known of g"),
    ],
)
def test_checks_compare_the_prediction_with_what_the_target_says(
    move: ShareMove, again: int | None, verdict: Verdict, words: str
) -> None:
    (check,) = rules.checks([move], {"g": again}, {})
    assert check.verdict is verdict
    assert words in check.evidence


def test_checks_say_which_partition_begins_by_the_reset_policy() -> None:
    unset = rules.unset("g", AT, THERE, "latest", 99)
    assert (unset.source_start, unset.source_complete, unset.records, unset.unknown) == (0, 0, 0, 0)
    assert not unset.checkpointed
    (check,) = rules.checks([unset], {}, {})
    assert check.verdict is Verdict.CONDITIONS
    assert "share.auto.offset.reset, which is latest on the source" in check.evidence
    assert blocked([unset]) == {}
    assert rules.redelivered_by_group([unset]) == {}


def test_partition_of_which_nothing_is_known_blocks_its_group_and_is_named() -> None:
    unread = rules.unread("g", AT, THERE, "no leader", 99)
    assert not unread.checkpointed
    rest = replace(rules.decide(item(), BOUNDS, None), source=TopicPartition("orders", 1))
    left = rules.leave_blocked([rest, unread], {}, lambda _: False)
    assert [(move.start, move.left) for move in left] == [(None, ShareLeft.GROUP), (None, ShareLeft.UNKNOWN)]
    (check,) = rules.checks(left, {}, {})
    assert check.verdict is Verdict.CONDITIONS
    assert "g in orders-0: no leader" in check.evidence
    in_part = rules.leave_blocked([rest, unread], {}, lambda _: True)
    assert [move.start for move in in_part] == [110, None]
    assert rules.redelivered_by_group(in_part) == {"g": None}


def test_checks_without_share_groups_are_none() -> None:
    assert rules.checks([], {}, {}) == ()


def test_unsupported_target_leaves_the_group_and_blocks_nothing() -> None:
    move = rules.unsupported(rules.decide(item(), BOUNDS, None))
    assert (move.start, move.left, blocked([move])) == (None, ShareLeft.UNSUPPORTED, {})


OTHER = replace(rules.decide(item(), BOUNDS, None), group="other")
AHEAD = rules.decide(item(), BOUNDS, ShareState(111, ()))


def test_leave_blocked_leaves_the_whole_group_and_moves_the_others() -> None:
    second = moved(source=TopicPartition("orders", 1), target=TopicPartition("LEFT.orders", 1))
    ahead, along, other = rules.leave_blocked([AHEAD, second, OTHER], {}, lambda _: False)
    assert (ahead, other) == (AHEAD, OTHER)
    assert (along.start, along.complete, along.left, along.redelivered) == (None, (), ShareLeft.GROUP, None)
    assert along.why == "its group is left: LEFT.orders-0, it is at 111 there, further ahead: the group was used there"


def test_leave_blocked_moves_a_group_in_part_that_may_be() -> None:
    second = moved(source=TopicPartition("orders", 1), target=TopicPartition("LEFT.orders", 1))
    assert rules.leave_blocked([AHEAD, second], {}, {"g"}.__contains__) == (AHEAD, second)


def test_leave_blocked_group_with_members_is_not_moved_in_part() -> None:
    busy, other = rules.leave_blocked([moved(), OTHER], {"g": "it has members there"}, lambda _: True)
    assert (busy.left, busy.why, other) == (ShareLeft.GROUP, "its group is left: it has members there", OTHER)


def test_group_that_could_not_be_written_is_not_moved_and_counts_as_unknown() -> None:
    failed, other = rules.after_writing([moved(), OTHER], {("other", THERE): ""}, {"g": "it was used there"})
    assert (failed.moved, failed.redelivered, other.moved) == (False, None, True)
    (check,) = rules.checks([failed, other], {}, {})
    assert (check.verdict, "left: g in orders-0: it was used there" in check.evidence) == (Verdict.CONDITIONS, True)
    assert "7 acknowledged records behind" in check.evidence  # those of the other group
    (again,) = rules.after_writing([failed], {KEY: ""}, {})
    assert (again.moved, again.redelivered) == (True, 0)


def test_checks_name_a_group_of_which_nothing_is_known() -> None:
    (check,) = rules.checks([], {}, {"g": "GROUP_AUTHORIZATION_FAILED"})
    assert (check.verdict, "left: g: GROUP_AUTHORIZATION_FAILED" in check.evidence) == (Verdict.CONDITIONS, True)


def test_rehearsed_says_which_start_offsets_are_on_the_target_and_what_would_be_left() -> None:
    assert rules.rehearsed([], {}) == ()
    (check,) = rules.rehearsed([moved()], {})
    assert (check.name, check.verdict) == (rules.REHEARSED, Verdict.PASS)
    assert check.evidence == "1 of 1 start offsets are on the target, with 7 acknowledged records behind them"
    (check,) = rules.rehearsed([moved(), replace(AHEAD, group="ahead")], {"hidden": "not authorized"})
    assert check.verdict is Verdict.CONDITIONS
    assert check.evidence.startswith("1 of 2 start offsets")
    assert "would be left: hidden: not authorized; ahead in orders-0: it is at 111 there" in check.evidence
    (check,) = rules.rehearsed([moved(unknown=None)], {})
    assert (check.verdict, "is not known of g" in check.evidence) == (Verdict.CONDITIONS, True)
