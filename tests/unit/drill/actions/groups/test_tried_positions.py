"""What a planned move wrote before it failed, and what was there before it."""

from __future__ import annotations

from dataclasses import replace

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.tried_positions import before, merged, of_others, ours
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.model import TopicPartition, TranslationKind

P0, P1 = TopicPartition("A.t", 0), TopicPartition("A.t", 1)


def move(target: TopicPartition, offset: int | None, before: int | None, metadata: str = "") -> PositionMove:
    source = TopicPartition("t", target.partition)
    return PositionMove(
        "g", source, 9, target, offset, TranslationKind.EXACT, 0, 0, before=before, before_metadata=metadata
    )


def test_ours_are_positions_that_are_as_they_were_written() -> None:
    there = {"g": {P0: CommittedOffset(5, "m"), P1: CommittedOffset(8)}, "other": {P0: CommittedOffset(5)}}
    assert ours([move(P0, 5, 3), move(P1, 7, None)], there) == {"g": {P0: CommittedOffset(5, "m")}}
    assert ours([move(P0, None, 3)], {"g": {}}) == {}


def test_group_that_others_moved_or_deleted_is_theirs() -> None:
    kept = [move(P0, 5, 3), move(P1, 7, None)]
    unchanged: list[dict[TopicPartition, int]] = [{P0: 5, P1: 7}, {P0: 3}, {P0: 5}]
    changed: list[dict[TopicPartition, int]] = [{P0: 6, P1: 7}, {P1: 7}, {}]
    for at in (*unchanged, *changed):
        there = {"g": {p: CommittedOffset(offset) for p, offset in at.items()}}
        assert of_others(kept, there) == ({"g"} if at in changed else frozenset())


def test_before_sets_back_what_was_written_and_nothing_else() -> None:
    there = {"g": {P0: CommittedOffset(5), P1: CommittedOffset(7)}, "other": {P0: CommittedOffset(5)}}
    kept = [move(P0, 5, 3, "was"), move(P1, 7, None)]
    assert before(kept, there) == {"g": {P0: CommittedOffset(3, "was")}, "other": {P0: CommittedOffset(5)}}
    there["g"][P0] = CommittedOffset(6)
    assert before(kept, there)["g"] == {P0: CommittedOffset(6)}
    assert before([], there) == there


def test_merged_keeps_what_was_there_before_the_first_try() -> None:
    first = move(P0, 5, 3, "was")
    assert merged([], [first, move(P1, None, 1)]) == (first,)
    again = replace(first, offset=6, before=5, before_metadata="ours")
    assert merged([first], [again]) == (replace(again, before=3, before_metadata="was"),)
    assert merged([first], [move(P1, 1, None)]) == (first, move(P1, 1, None))


def test_merged_of_a_position_that_others_changed_between_two_tries_has_theirs_as_before() -> None:
    assert merged([move(P0, 5, 3)], [move(P0, 9, 8)]) == (move(P0, 9, 8),)
