"""What the scorecard has of every partition and group, from what steps kept."""

from dataclasses import replace
from pathlib import Path

from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.session.scorecard import _groups, _newer, _partitions
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.scorecard import GroupScore, PartitionOffsets, RtoSeconds


def partition(number: int, unmirrored: int, **more: float | str) -> PartitionOffsets:
    fields = {"topic": "orders", "partition": number, "source_end": 9, "mirrored_to": 9, "target_end": 9}
    return PartitionOffsets.model_validate({**fields, "unmirrored": unmirrored, **more})


def test_scorecard_has_one_row_a_partition_the_later_count_and_the_known_seconds() -> None:
    drained = [partition(1, 0, at_most_seconds=0.4, basis="b"), partition(0, 3, at_most_seconds=2.0, basis="a")]
    rows = _partitions([*drained, partition(0, 5)])
    assert [(r.partition, r.unmirrored, r.at_most_seconds, r.basis) for r in rows] == [
        (0, 5, 2.0, "a"),
        (1, 0, 0.4, "b"),
    ]


def test_scorecard_names_every_group_that_was_moved_also_where_nothing_was_committed(tmp_path: Path) -> None:
    at = TopicPartition("orders", 0)
    moves = [
        PositionMove("billing", at, 5, at, 5, TranslationKind.EXACT, 0, 1),
        PositionMove("audit", at, 5, at, None, TranslationKind.UNKNOWN, 0, 1),
    ]
    decided.write(tmp_path, "RIGHT", moves)
    assert _groups(tmp_path, "RIGHT") == (
        GroupScore(group="audit", positions={"unknown": 1}),
        GroupScore(group="billing", positions={"exact": 1}),
    )
    assert _groups(tmp_path, "LEFT") == ()


def test_scorecard_has_what_a_group_reads_again_at_most_where_all_of_it_was_predicted(tmp_path: Path) -> None:
    at, there = TopicPartition("orders", 0), TopicPartition("orders", 1)
    bounded = PositionMove("billing", at, 5, at, 5, TranslationKind.BOUNDED, 9, 1, re_reads=9)
    moves = [
        bounded,
        replace(bounded, target=there, re_reads=30),
        replace(bounded, group="audit"),
        replace(bounded, group="audit", target=there, re_reads=None),
    ]
    decided.write(tmp_path, "RIGHT", moves)
    assert [(g.group, g.re_read_at_most) for g in _groups(tmp_path, "RIGHT")] == [("audit", None), ("billing", 39)]


def test_scorecard_reason_of_a_step_replaces_no_figure_of_another() -> None:
    measured, reason = RtoSeconds(total=3.0), RtoSeconds(why="nothing observed")
    assert _newer(reason, measured) == measured
    assert _newer(reason, RtoSeconds()) == reason
    assert _newer(RtoSeconds(detect=1.0, total=3.0), measured).detect == 1.0
    assert _newer(None, measured) == measured
