"""Decisions on each position of a group that is moved: committed, or left with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.drill.actions.groups.rules import (
    BEFORE_TRANSACTION,
    CHECK,
    AsOf,
    Left,
    LogBounds,
    PositionMove,
    ahead,
    as_of,
    before_transactions,
    blocked,
    decide,
    decide_all,
    leave_groups,
    left_check,
    no_group,
    read_again,
)
from drlib.errors import NoLeader
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runs.check import Verdict

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("LEFT.orders", 0)
BOUNDS = LogBounds(0, 60)


def translated(offset: int | None, kind: TranslationKind = TranslationKind.EXACT, records: int = 0) -> GroupTranslation:
    return GroupTranslation("billing", SOURCE, 70, TARGET, Translation(offset, kind, records), 1, "m")


@pytest.mark.parametrize("kind", [k for k in TranslationKind if k is not TranslationKind.UNKNOWN])
def test_decide_known_translation_is_committed_with_its_metadata(kind: TranslationKind) -> None:
    move = decide(translated(50, kind, 3), BOUNDS)
    assert (move.offset, move.kind, move.records, move.metadata, move.why) == (50, kind, 3, "m", "")
    assert (move.before, move.left) == (None, None)
    assert blocked([move]) == {}
    assert move.translation == translated(50, kind, 3)


@pytest.mark.parametrize(("records", "left"), [(20, 5), (3, 0)])
def test_decide_position_below_the_log_start_is_moved_up_to_it(records: int, left: int) -> None:
    """Below it a client would begin where its `auto.offset.reset` says: by default at the end."""
    bounds = LogBounds(30, 60)
    move = decide(translated(15, TranslationKind.BOUNDED, records), bounds)
    assert (move.offset, move.kind, move.records) == (30, TranslationKind.BOUNDED, left)
    assert decide(translated(15), bounds, CommittedOffset(20)).offset == 30
    assert decide(translated(15), bounds, CommittedOffset(40)).left is Left.AHEAD


def test_position_behind_a_partial_transaction_is_set_back_to_it_and_no_other() -> None:
    move = decide(translated(50), BOUNDS, CommittedOffset(20))
    back = before_transactions(move, 42)
    assert (back.offset, back.kind, back.records, back.before) == (42, TranslationKind.BOUNDED, 8, 20)
    assert (back.why, read_again(back), back.harmless) == (BEFORE_TRANSACTION, 8, True)
    bounded = decide(translated(50, TranslationKind.BOUNDED, 3), BOUNDS)
    assert before_transactions(bounded, 42).records == 11
    for first in (None, 50, 55):
        assert before_transactions(move, first) == move
    left = decide(translated(50), BOUNDS, CommittedOffset(55))
    assert before_transactions(left, 42) == left


def test_decide_equal_position_is_kept_and_a_lower_one_raised() -> None:
    assert decide(translated(50), BOUNDS, CommittedOffset(50)).offset == 50
    move = decide(translated(50), BOUNDS, CommittedOffset(20, "old"))
    assert (move.offset, move.before, move.before_metadata) == (50, 20, "old")


@pytest.mark.parametrize(
    ("item", "bounds", "committed", "left", "why"),
    [
        (translated(50), BOUNDS, 55, Left.AHEAD, "further ahead"),
        (translated(61), BOUNDS, None, Left.PAST_END, "ends at 60"),
        (translated(50, TranslationKind.UNKNOWN), BOUNDS, None, Left.UNKNOWN, "does not determine"),
        (translated(None, TranslationKind.BEHIND), BOUNDS, None, Left.UNKNOWN, "does not determine"),
        (translated(50), None, None, Left.UNKNOWN, "does not exist there"),
        (translated(None, TranslationKind.NEVER_MIRRORED), BOUNDS, 5, Left.AHEAD, "further ahead"),
    ],
)
def test_decide_guess_or_step_back_is_left_and_blocks_its_group(
    item: GroupTranslation, bounds: LogBounds | None, committed: int | None, left: Left, why: str
) -> None:
    move = decide(item, bounds, None if committed is None else CommittedOffset(committed))
    assert (move.offset, move.left) == (None, left)
    assert why in move.why
    assert blocked([move, decide(translated(1), BOUNDS)]) == {"billing": (move,)}


def test_decide_step_back_that_is_asked_for_or_undoes_this_steps_own_commit_is_taken() -> None:
    committed = CommittedOffset(55)
    assert decide(translated(50), BOUNDS, committed, rewind=True).offset == 50
    on_target = {"billing": {TARGET: committed}}
    (move,) = decide_all([translated(50)], {TARGET: BOUNDS}, on_target, ours=on_target)
    assert move.offset == 50
    (move,) = decide_all([translated(50)], {TARGET: BOUNDS}, on_target, ours={"billing": {TARGET: CommittedOffset(54)}})
    assert move.left is Left.AHEAD


def test_decide_never_mirrored_begins_at_the_log_start_where_the_partition_exists() -> None:
    nothing = translated(None, TranslationKind.NEVER_MIRRORED)
    assert decide(nothing, LogBounds(7, 7)).offset == 7
    assert decide(nothing, LogBounds(7, 9), CommittedOffset(7)).offset == 7  # it is there already
    left = decide(nothing, None)
    assert (left.offset, left.left) == (None, Left.NOT_MIRRORED)
    assert blocked([left]) == {}


OFFSETS = st.integers(0, 12)
TRANSLATIONS = st.builds(
    GroupTranslation,
    st.sampled_from("ab"),
    st.just(SOURCE),
    OFFSETS,
    st.builds(TopicPartition, st.just("LEFT.orders"), st.integers(0, 1)),
    st.builds(Translation, st.none() | OFFSETS, st.sampled_from(TranslationKind), OFFSETS),
    st.just(1),
)
ALL_BOUNDS = st.dictionaries(
    st.builds(TopicPartition, st.just("LEFT.orders"), st.integers(0, 1)),
    st.builds(lambda start, size: LogBounds(start, start + size), OFFSETS, OFFSETS),
)
COMMITTED = st.dictionaries(
    st.sampled_from("ab"),
    st.dictionaries(
        st.builds(TopicPartition, st.just("LEFT.orders"), st.integers(0, 1)), st.builds(CommittedOffset, OFFSETS)
    ),
)


def check(move: PositionMove, item: GroupTranslation, bounds: dict[TopicPartition, LogBounds], rewind: bool) -> None:
    assert (move.offset is None) == (move.left is not None) == bool(move.why)
    if move.offset is None:
        return
    assert move.offset <= bounds[move.target].end  # never past the end, never into a partition that does not exist
    assert item.translation.kind is not TranslationKind.UNKNOWN
    wanted, start = item.translation, bounds[move.target].start
    lowest = start if wanted.offset is None else max(start, wanted.offset)  # below the start there is nothing
    if wanted.kind is TranslationKind.BOUNDED and move.offset != lowest:  # what was there already, within the bound
        assert wanted.offset is not None
        assert lowest < move.offset <= wanted.offset + wanted.records
        assert move.offset == move.before
        return
    assert move.offset == lowest
    if not rewind:
        assert move.before is None or move.offset >= move.before  # never backwards


@given(st.lists(TRANSLATIONS), ALL_BOUNDS, COMMITTED, st.booleans())
def test_decide_all_never_writes_past_the_end_backwards_or_unknown(
    items: list[GroupTranslation],
    bounds: dict[TopicPartition, LogBounds],
    committed: dict[str, dict[TopicPartition, CommittedOffset]],
    rewind: bool,
) -> None:
    moves = decide_all(items, bounds, committed, rewind=rewind)
    assert len(moves) == len(items)
    for move, item in zip(moves, items, strict=True):
        check(move, item, bounds, rewind)
        now = committed.get(item.group, {}).get(item.target)
        assert move.before == (None if now is None else now.offset)
    assert set(blocked(moves)) == {m.group for m in moves if m.left not in (None, Left.NOT_MIRRORED)}


READ_MS = 1_767_323_045_000  # 2026-01-02 03:04:05 UTC


@pytest.mark.parametrize(
    ("log_end", "fault", "ahead", "words", "re_reads"),
    [
        (65, None, None, "exact as of 2026-01-02 03:04:05 UTC", None),
        (65, 3_200, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, 3.2 s before the fault; up to 15 re-reads", 15),
        (
            None,
            3_200,
            (0, 0),
            "exact as of 2026-01-02 03:04:05 UTC, 3.2 s before the fault; unknown number of re-reads",
            None,
        ),
        (50, 3_200, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, 3.2 s before the fault; up to 0 re-reads", 0),
        (40, 3_200, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, 3.2 s before the fault; up to 0 re-reads", 0),
        (65, 1, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, 0.0 s before the fault; up to 15 re-reads", 15),
        (65, 0, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, after the fault", 0),
        (65, -1, (0, 0), "exact as of 2026-01-02 03:04:05 UTC, after the fault", 0),
        # the mirror's clock is between 10 and 11 s ahead: its 3.2 s after the fault are up to 7.8 s before it
        (
            65,
            -3_200,
            (10_000, 11_000),
            "exact as of 2026-01-02 03:04:05 UTC, 7.8 s before the fault; up to 15 re-reads",
            15,
        ),
        (65, -1, None, "exact as of 2026-01-02 03:04:05 UTC by the mirror's clock; up to 15 re-reads", 15),
    ],
)
def test_as_of_says_how_old_a_position_was_and_what_may_be_read_again(
    log_end: int | None, fault: int | None, ahead: tuple[int, int] | None, words: str, re_reads: int | None
) -> None:
    item = GroupTranslation("billing", SOURCE, 70, TARGET, Translation(50, TranslationKind.EXACT, 0), READ_MS)
    fault_ms = None if fault is None else (READ_MS + fault, READ_MS + fault)
    found = as_of(decide(item, BOUNDS), log_end, fault_ms, ahead)
    assert (found.words, found.re_reads) == (words, re_reads)


@pytest.mark.parametrize(
    ("item", "committed", "left", "re_reads"),
    [
        (translated(50), CommittedOffset(55), Left.AHEAD, 0),  # it was used there, and reads on from there
        (translated(61), None, Left.PAST_END, None),
        (translated(None, TranslationKind.UNKNOWN), None, Left.UNKNOWN, None),
    ],
)
def test_as_of_a_position_that_is_left_knows_re_reads_only_of_one_that_is_further_ahead(
    item: GroupTranslation, committed: CommittedOffset | None, left: Left, re_reads: int | None
) -> None:
    move = decide(item, BOUNDS, committed)
    assert move.left is left
    assert as_of(move, 65, (READ_MS, READ_MS), (0, 0)) == AsOf("", re_reads)


def of_group(group: str, offset: int = 50, partition: int = 0) -> PositionMove:
    source, target = TopicPartition("orders", partition), TopicPartition("LEFT.orders", partition)
    translation = Translation(offset, TranslationKind.EXACT, 0)
    return decide(GroupTranslation(group, source, 70, target, translation, 1), BOUNDS)


def test_group_that_is_used_on_the_target_is_left_as_a_whole_and_no_other() -> None:
    moves = (of_group("billing"), of_group("billing", 61, partition=1), of_group("carts"))
    left = leave_groups(moves, {"billing": "it has members there"})
    assert [move.offset for move in left] == [None, None, 50]
    assert {(move.left, move.why) for move in left[:2]} == {(Left.GROUP, "its group is left: it has members there")}
    assert left[2] == moves[2]
    (check,) = left_check(left, {})
    assert (check.name, check.verdict) == (CHECK, Verdict.CONDITIONS)
    assert check.evidence.startswith("1 groups were moved, 1 were left: billing: it has members there. ")


def test_left_check_is_none_where_every_group_was_moved_if_only_in_part() -> None:
    moves = (of_group("billing"), of_group("billing", 61, partition=1))
    assert leave_groups(moves, {}) == moves
    assert left_check(moves, {}) == ()


def test_partition_without_a_leader_is_unknown_named_and_blocks_no_other_position() -> None:
    item = GroupTranslation("billing", SOURCE, 70, TARGET, Translation(60, TranslationKind.EXACT, 0), 1)
    lost = decide(item, NoLeader(TARGET, "RIGHT"), CommittedOffset(50))
    assert (lost.offset, lost.left, lost.kind, lost.before) == (None, Left.NO_LEADER, TranslationKind.UNKNOWN, 50)
    assert not lost.harmless  # a planned move is refused
    (check,) = left_check((lost, of_group("billing", partition=1)), {})
    assert check.verdict is Verdict.CONDITIONS
    assert f"{TARGET} (billing): it has no leader on RIGHT" in check.evidence
    assert "Start the brokers that hold these partitions" in check.evidence
    assert left_check((lost,), {})[0].verdict is Verdict.FAIL
    assert leave_groups([lost], {"billing": "it has members there"}) == (lost,)


def test_partition_of_which_nothing_is_on_the_target_says_so_in_a_group_that_is_left() -> None:
    item = GroupTranslation("billing", SOURCE, 70, TARGET, Translation(None, TranslationKind.NEVER_MIRRORED, 0), 1)
    (move,) = leave_groups([decide(item, None)], {"billing": "it has members there"})
    assert (move.left, move.why) == (Left.NOT_MIRRORED, "nothing of it is on the target")


def test_left_check_fails_where_no_group_was_moved_and_names_those_whose_positions_are_unknown() -> None:
    (check,) = left_check((), {"every group": "MirrorMaker 2 wrote no checkpoint"})
    assert check.verdict is Verdict.FAIL
    assert check.evidence.startswith(
        "0 groups were moved, 1 were left: every group: MirrorMaker 2 wrote no checkpoint. "
    )
    (check,) = left_check((of_group("carts"),), {"billing": "its name has a line break"})
    assert check.verdict is Verdict.CONDITIONS
    assert "1 groups were moved, 1 were left: billing: its name has a line break" in check.evidence
    many = {f"g{n}": "why" for n in range(7)}
    assert "g4: why; and 2 more." in left_check((of_group("carts"),), many)[0].evidence


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        (TranslationKind.EXACT, 0),
        (TranslationKind.LOST, 0),  # its records are those that the mirror does not have
        (TranslationKind.BEHIND, 7),
        (TranslationKind.BOUNDED, 7),
    ],
)
def test_read_again_is_the_bound_of_what_lies_behind_the_position(kind: TranslationKind, again: int) -> None:
    assert read_again(decide(translated(50, kind, 7), BOUNDS)) == again
    assert read_again(decide(translated(61, kind, 7), BOUNDS)) == 0  # it is left


def test_as_of_after_the_fault_is_what_a_bounded_position_reads_again() -> None:
    item = GroupTranslation("billing", SOURCE, 70, TARGET, Translation(50, TranslationKind.BOUNDED, 7), READ_MS)
    assert as_of(decide(item, BOUNDS), 65, (READ_MS - 1, READ_MS - 1), (0, 0)).re_reads == 7


@pytest.mark.parametrize(
    ("kind", "committed", "rewind", "offset", "records", "left"),
    [
        (TranslationKind.BOUNDED, 50, False, 50, 7, None),
        (TranslationKind.BOUNDED, 51, False, 51, 6, None),  # MirrorMaker 2 synchronized it
        (TranslationKind.BOUNDED, 57, False, 57, 0, None),
        (TranslationKind.BOUNDED, 58, False, None, 7, Left.AHEAD),
        (TranslationKind.BOUNDED, 51, True, 50, 7, None),
        (TranslationKind.BEHIND, 51, False, None, 7, Left.AHEAD),
    ],
)
def test_decide_keeps_a_position_on_the_target_that_is_within_the_bound(
    kind: TranslationKind, committed: int, rewind: bool, offset: int | None, records: int, left: Left | None
) -> None:
    item = GroupTranslation("billing", SOURCE, 70, TARGET, Translation(50, kind, 7), READ_MS)
    move = decide(item, BOUNDS, CommittedOffset(committed), rewind=rewind)
    assert (move.offset, move.records, move.left) == (offset, records, left)


@pytest.mark.parametrize(
    ("item", "begin", "records"),
    [
        (translated(50), 50, 0),
        (translated(50, TranslationKind.BEHIND, 7), 50, 7),
        (translated(50, TranslationKind.LOST, 7), 50, 7),
        (translated(None, TranslationKind.NEVER_MIRRORED), 10, 0),
        (translated(43, TranslationKind.BOUNDED, 7), 50, 0),
    ],
)
def test_decide_position_that_is_ahead_by_markers_alone_is_kept_as_it_is(
    item: GroupTranslation, begin: int, records: int
) -> None:
    bounds, committed = LogBounds(10, 60), CommittedOffset(55, "there")
    between = ahead(item, bounds, committed)
    assert between == (TARGET, Range(begin, 55))
    assert decide(item, bounds, committed, markers={(TARGET, Range(begin, 54))}).left is Left.AHEAD
    move = decide(item, bounds, committed, markers={between})
    assert (move.offset, move.before, move.kind, move.records) == (55, 55, item.translation.kind, records)
    assert (blocked([move]), left_check([move], {})) == ({}, ())
    back = decide(item, bounds, committed, rewind=True, markers={between})
    assert back.offset == (item.translation.offset or 10)


@pytest.mark.parametrize(
    ("item", "bounds", "committed"),
    [
        (translated(50), BOUNDS, None),
        (translated(50), BOUNDS, 50),
        (translated(50), None, 55),
        (translated(50, TranslationKind.UNKNOWN), BOUNDS, 55),
        (translated(None, TranslationKind.BEHIND), BOUNDS, 55),
        (translated(50, TranslationKind.BOUNDED, 7), BOUNDS, 57),
    ],
)
def test_ahead_is_nothing_where_a_position_is_not_ahead_of_a_known_one(
    item: GroupTranslation, bounds: LogBounds | None, committed: int | None
) -> None:
    assert ahead(item, bounds, None if committed is None else CommittedOffset(committed)) is None


def test_decide_bound_of_a_position_at_offset_0_ends_behind_its_records() -> None:
    item = translated(0, TranslationKind.BOUNDED, 7)
    assert decide(item, BOUNDS, CommittedOffset(7)).offset == 7
    assert decide(item, BOUNDS, CommittedOffset(8)).left is Left.AHEAD


@pytest.mark.parametrize(
    ("both_maps", "committed", "offset", "records", "left"),
    [
        (True, 51, None, 7, Left.AHEAD),  # what lies between was not read in that order: the group was used there
        (True, 49, 50, 7, None),
        (False, 51, 51, 7, None),  # synchronized while both maps were known
        (False, 59, 59, 7, None),
        (False, 61, None, 7, Left.PAST_END),
        (False, 49, 50, 7, None),
    ],
)
def test_decide_position_in_a_topic_copied_both_ways_never_goes_back(
    both_maps: bool, committed: int, offset: int | None, records: int, left: Left | None
) -> None:
    found = Translation(50, TranslationKind.BOUNDED, 7)
    item = GroupTranslation("billing", SOURCE, 70, SOURCE, found, 1, both_maps=both_maps)
    move = decide(item, BOUNDS, CommittedOffset(committed))
    assert (move.offset, move.records, move.left) == (offset, records, left)


def test_decide_unknown_position_is_left_for_the_reason_of_its_translation() -> None:
    unknown = Translation(None, TranslationKind.UNKNOWN)
    item = GroupTranslation("billing", SOURCE, 70, SOURCE, unknown, 1, both_maps=False, why="the journal is gone")
    assert decide(item, BOUNDS).why == "the journal is gone"


def test_move_without_a_group_says_whether_none_matches_or_there_is_none() -> None:
    flow = Flow("LEFT", "RIGHT")
    none = str(no_group(flow, [], [".*"], "run-1"))
    assert "no group has a position on a topic that LEFT->RIGHT mirrors" in none
    assert none.endswith("drlib run rehearse-failover --lab")
    assert "`groups`" not in none, "there is nothing to correct in the runbook"
    other = str(no_group(flow, ["b", "a"], ["x.*"], "run-1"))
    assert "matches x.*. Groups with a position: a, b. Correct `groups`" in other
    assert other.endswith("--supersede run-1")
