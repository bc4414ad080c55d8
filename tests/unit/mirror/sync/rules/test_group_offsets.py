"""When a group's position is written: the verdicts row by row, and promises that hold for any history."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.admin.descriptions import GroupState
from drlib.mirror.sync.rules.group_offsets import (
    UNCHANGED_RUNS,
    WRITABLE,
    GroupDecision,
    GroupMemory,
    SyncDecision,
    TranslatedPosition,
    Written,
    decide,
    decide_position,
)
from drlib.model import TopicPartition, Translation, TranslationKind

P, Q = TopicPartition("A.t", 0), TopicPartition("A.t", 1)
K = TranslationKind


def wanted(target: int | None, source: int = 100, kind: TranslationKind = K.EXACT) -> TranslatedPosition:
    return TranslatedPosition(source, Translation(target, kind), "meta")


@pytest.mark.parametrize(
    ("want", "committed", "end", "written", "decision"),
    [
        (wanted(50), None, 50, None, SyncDecision.FIRST),
        (wanted(50), 50, 50, None, SyncDecision.KEEP),
        (wanted(50), 49, 50, None, SyncDecision.RAISE),
        (wanted(50), 49, 50, Written(1, 7), SyncDecision.RAISE),
        (wanted(50), 51, 60, None, SyncDecision.AHEAD),
        (wanted(50), 51, 60, Written(101, 51), SyncDecision.LOWER),
        (wanted(50), 51, 60, Written(100, 51), SyncDecision.AHEAD),  # the source did not go back
        (wanted(50), 51, 60, Written(101, 52), SyncDecision.AHEAD),  # another client moved it since
        (wanted(50), None, 49, None, SyncDecision.PAST_END),
        (wanted(50), 40, 49, None, SyncDecision.PAST_END),
        (wanted(50), None, None, None, SyncDecision.NOT_TRANSLATED),
        (wanted(None), None, 50, None, SyncDecision.NOT_TRANSLATED),
        (wanted(50, kind=K.UNKNOWN), None, 50, None, SyncDecision.NOT_TRANSLATED),
        (wanted(50, kind=K.BEHIND), 10, 50, None, SyncDecision.RAISE),
        (wanted(50, kind=K.LOST), 10, 50, None, SyncDecision.RAISE),
        (wanted(50, kind=K.BOUNDED), 10, 50, None, SyncDecision.RAISE),
        (wanted(0, kind=K.NEVER_MIRRORED), None, 50, None, SyncDecision.FIRST),
        (wanted(0, kind=K.NEVER_MIRRORED), 3, 50, None, SyncDecision.AHEAD),
    ],
)
def test_decide_position_by_translation_and_positions(
    want: TranslatedPosition, committed: int | None, end: int | None, written: Written | None, decision: SyncDecision
) -> None:
    assert decide_position(want, committed, end, written) is decision


def test_writable_has_every_kind_of_translation() -> None:
    assert set(WRITABLE) == set(TranslationKind)
    assert [kind for kind, writable in WRITABLE.items() if not writable] == [K.UNKNOWN]


def names(decision: GroupDecision) -> list[str]:
    return [finding.name for finding in decision.findings]


def run(
    state: GroupState, want: int, committed: Mapping[TopicPartition, int], memory: GroupMemory | None
) -> GroupDecision:
    return decide(state, {P: wanted(want)}, committed, {P: 10**6, Q: 10**6}, memory)


def test_decide_absent_group_is_written_with_metadata() -> None:
    found = run(GroupState.ABSENT, 50, {}, None)
    assert (found.writes[P].offset, found.writes[P].metadata, found.writes[P].source) == (50, "meta", 100)
    assert found.memory == GroupMemory({P: 50}, {P: Written(100, 50)})
    assert found.unwritten == GroupMemory({}, {}, doubted={P: Written(100, 50)})


def test_decide_empty_group_with_positions_is_observed_for_one_run() -> None:
    first = run(GroupState.EMPTY, 50, {P: 40}, None)
    assert first.writes == {}
    second = run(GroupState.EMPTY, 50, {P: 40}, first.memory)
    assert second.writes[P].offset == 50
    moved = run(GroupState.EMPTY, 50, {P: 41}, first.memory)
    assert (dict(moved.writes), names(moved)) == ({}, ["GroupLive"])


@pytest.mark.parametrize("state", [GroupState.ACTIVE, GroupState.UNKNOWN])
def test_decide_group_with_members_is_live_and_forgotten(state: GroupState) -> None:
    found = run(state, 50, {}, GroupMemory({P: 10}))
    assert (dict(found.writes), names(found), found.memory) == ({}, ["GroupLive"], None)
    assert ("has members" in found.findings[0].detail) is (state is GroupState.ACTIVE)


@pytest.mark.parametrize("moved", [{P: 60}, {P: 40}, {P: 50, Q: 3}])
def test_decide_moved_position_makes_group_live_until_unchanged_for_ten_runs(
    moved: dict[TopicPartition, int],
) -> None:
    memory = GroupMemory({P: 50}, {P: Written(100, 50)})
    found = run(GroupState.EMPTY, 70, moved, memory)
    for _ in range(9):
        assert (dict(found.writes), names(found)) == ({}, ["GroupLive"])
        found = run(GroupState.EMPTY, 70, moved, found.memory)
    assert names(found) == ["GroupLive"]
    found = run(GroupState.EMPTY, 70, moved, found.memory)
    assert found.writes[P].offset == 70
    assert names(found) == []


def test_decide_position_that_another_flow_synchronizes_makes_no_group_live() -> None:
    other = TopicPartition("B.t", 0)
    memory: GroupMemory | None = GroupMemory({P: 50, other: 1}, {P: Written(100, 50)})
    for number in range(2, 5):  # in each run the other flow has written as well
        committed = {P: 50 + number - 2, other: number}
        found = decide(
            GroupState.EMPTY,
            {P: wanted(50 + number - 1, source=100 + number)},
            committed,
            {P: 10**6},
            memory,
            ours=lambda topic: topic == P.topic,
        )
        assert (found.writes[P].offset, names(found)) == (50 + number - 1, [])
        memory = found.memory


def test_decide_expired_position_and_deleted_group_are_written_again() -> None:
    memory = GroupMemory({P: 50, Q: 7}, {P: Written(100, 50)})
    assert run(GroupState.EMPTY, 50, {Q: 7}, memory).writes[P].offset == 50
    assert run(GroupState.ABSENT, 50, {}, GroupMemory({P: 50}, unchanged_runs=1)).writes[P].offset == 50


def test_decide_absent_group_with_positions_is_live_and_kept_in_memory() -> None:
    memory = GroupMemory({P: 50}, {P: Written(100, 50)})
    found = run(GroupState.ABSENT, 70, {P: 50}, memory)
    assert (dict(found.writes), names(found), found.memory) == ({}, ["GroupLive"], memory)
    assert "about to join" in found.findings[0].detail
    assert run(GroupState.EMPTY, 70, {P: 50}, found.memory).writes[P].offset == 70


def test_decide_source_rewind_is_followed_and_reported() -> None:
    found = decide(
        GroupState.EMPTY,
        {P: wanted(30, source=80)},
        {P: 50},
        {P: 60},
        GroupMemory({P: 50}, {P: Written(100, 50)}),
    )
    assert found.writes[P].offset == 30
    assert names(found) == ["GroupRewound"]
    assert "set back from 50 to 30" in found.findings[0].detail


def test_decide_equal_position_counts_as_written_here() -> None:
    keep = run(GroupState.EMPTY, 50, {P: 50}, GroupMemory({P: 50}))
    assert keep.memory is not None
    assert keep.memory.written == {P: Written(100, 50)}


def test_decide_write_with_lost_answer_counts_as_written_if_made() -> None:
    """Otherwise the write would make the group live, and it would never follow its source back again."""
    lost = run(GroupState.EMPTY, 50, {P: 40}, GroupMemory({P: 40})).unwritten
    back = decide(GroupState.EMPTY, {P: wanted(30, source=80)}, {P: 50}, {P: 60}, lost)
    assert (back.writes[P].offset, names(back)) == (30, ["GroupRewound"])
    refused = run(GroupState.EMPTY, 50, {P: 40}, lost)
    assert (refused.writes[P].offset, names(refused)) == (50, [])
    theirs = run(GroupState.EMPTY, 50, {P: 45}, lost)
    assert (dict(theirs.writes), names(theirs)) == ({}, ["GroupLive"])


def test_decide_position_that_was_not_written_here_is_not_remembered_as_written() -> None:
    memory = GroupMemory({P: 55, Q: 7}, {P: Written(90, 50), Q: Written(9, 7)})
    found = run(GroupState.EMPTY, 50, {P: 55, Q: 7}, memory)
    assert names(found) == ["GroupAhead"]
    assert "committed offset 55 is 5 ahead of 50" in found.findings[0].detail
    for after in (found.memory, found.unwritten):
        assert after is not None
        assert after.written == {Q: Written(9, 7)}


def test_decide_doubted_write_that_was_made_is_not_doubted_any_more() -> None:
    doubted = {P: Written(100, 50), Q: Written(9, 7)}
    found = run(GroupState.EMPTY, 50, {P: 50}, GroupMemory({}, doubted=doubted))
    assert found.unwritten is not None
    assert found.unwritten.doubted == {Q: Written(9, 7)}


def test_decide_untranslated_partition_does_not_block_others() -> None:
    found = decide(
        GroupState.EMPTY,
        {P: wanted(30, kind=K.UNKNOWN), Q: wanted(5)},
        {},
        {P: 60, Q: 60},
        GroupMemory({}),
    )
    assert list(found.writes) == [Q]
    assert names(found) == ["GroupNotTranslated"]


def test_finding_detail_long_list_is_cut() -> None:
    many = {TopicPartition("A.t", n): wanted(9) for n in range(5)}
    (finding,) = decide(GroupState.ABSENT, many, {}, dict.fromkeys(many, 3), None).findings
    assert finding.name == "GroupPastEnd"
    assert finding.detail.endswith("and 2 more")
    three = dict(list(many.items())[:3])
    (finding,) = decide(GroupState.ABSENT, three, {}, dict.fromkeys(many, 3), None).findings
    assert finding.detail.count(";") == 2
    assert "more" not in finding.detail


steps = st.lists(
    st.tuples(
        st.sampled_from(list(GroupState)),
        st.integers(0, 9),  # the group's position on the source
        st.sampled_from(list(TranslationKind)),
        st.integers(0, 9),  # the log end on the target
        st.one_of(st.none(), st.integers(0, 9)),  # a commit by another client on the target
        st.sampled_from(["made", "refused", "made, and the answer lost"]),  # our write
    ),
    max_size=30,
)


@given(steps)
def test_decide_any_history_keeps_the_rules(
    history: list[tuple[GroupState, int, TranslationKind, int, int | None, str]],
) -> None:
    """Source and target offsets are the same here, so a position of the target is one of the source."""
    committed: dict[TopicPartition, int] = {}
    memory: GroupMemory | None = None
    since_moved = UNCHANGED_RUNS
    ours: tuple[int, int] | None = None  # (source, target) as we last left it
    undone: int | None = None  # the position before a write we do not know of: going back there is not noticed
    refused: set[int] = set()  # where a write that was not made would have put it: who goes there counts as us
    for state, source, kind, end, theirs, outcome in history:
        if theirs is not None and committed.get(P) != theirs:
            committed[P] = theirs
            since_moved, ours = 0, (theirs, theirs) if theirs in refused else None
        else:
            since_moved += 1
        if state is GroupState.ABSENT:
            committed.clear()
            since_moved, ours = UNCHANGED_RUNS, None
        found = decide(state, {P: wanted(source, source, kind)}, dict(committed), {P: end}, memory)
        for write in found.writes.values():
            assert state in (GroupState.ABSENT, GroupState.EMPTY)
            assert kind is not K.UNKNOWN
            assert write.offset <= end
            if P in committed and write.offset < committed[P]:
                assert ours is not None
                assert ours[1] == committed[P]
                assert source < ours[0]
            assert since_moved > 0 or P not in committed or committed[P] in (*refused, undone)
        undone = committed.get(P) if found.writes and outcome == "made, and the answer lost" else None
        if found.writes and outcome != "refused":
            committed.update({tp: write.offset for tp, write in found.writes.items()})
            ours = (source, source)
        elif found.writes:
            refused.add(source)
        elif committed.get(P) == source and kind is not K.UNKNOWN and source <= end:
            ours = (source, source)
        memory = found.unwritten if outcome != "made" and found.writes else found.memory
