"""What a run decided of positions is kept in its folder."""

from pathlib import Path

import pytest
from hostile_text import HOSTILE

from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.step import step_output
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import GroupState
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.scorecard import GroupScore

WIRE = [name for kind, name in HOSTILE.items() if kind != "lone surrogate"]  # names are UTF-8 there


def test_decided_positions_are_read_from_disk_and_deleted(tmp_path: Path) -> None:
    here, there = TopicPartition("orders", 3), TopicPartition("LEFT.orders", 3)
    moves = (
        PositionMove("billing", here, 70, there, 50, TranslationKind.BEHIND, 3, 1, "m", 20, "old"),
        PositionMove("billing", here, 70, there, None, TranslationKind.UNKNOWN, 0, 1, why="unknown history"),
    )
    assert positions.read(tmp_path, "RIGHT") is None
    positions.write(tmp_path, "RIGHT", moves)
    assert positions.read(tmp_path, "RIGHT") == moves
    assert positions.read(tmp_path, "RIGHT", "shadow") is None
    assert [move.translation.translation.offset for move in moves] == [50, None]
    positions.forget(tmp_path, "RIGHT")
    assert positions.read(tmp_path, "RIGHT") is None


def test_decided_positions_of_a_thousand_groups_are_read_again(tmp_path: Path) -> None:
    """They have more values together than one JSON document may have."""
    here, there = TopicPartition("orders", 3), TopicPartition("LEFT.orders", 3)
    many = tuple(PositionMove(f"g-{n}", here, n, there, n, TranslationKind.EXACT, 0, 1) for n in range(120_000))
    positions.write(tmp_path, "RIGHT", many)
    assert positions.read(tmp_path, "RIGHT") == many


def test_groups_in_use_are_kept_as_they_were_at_first(tmp_path: Path) -> None:
    """A step that is continued after a kill finds the members gone, as they were asked to leave."""
    assert positions.in_use(tmp_path, "RIGHT") == frozenset()
    positions.keep_in_use(tmp_path, "RIGHT", {"billing": GroupState.ACTIVE, "idle": GroupState.EMPTY})
    positions.keep_in_use(tmp_path, "RIGHT", {"billing": GroupState.EMPTY})
    assert positions.in_use(tmp_path, "RIGHT") == {"billing"}
    (path,) = tmp_path.rglob("*in-use*")
    path.write_text("[1]")
    with pytest.raises(UsageError, match="cannot be used"):
        positions.in_use(tmp_path, "RIGHT")


@pytest.mark.parametrize(
    "name", ["a b", "a,b", "-a", "__a", "=a()", "\u00e4\u4e2d", "x" * 300, *WIRE], ids=lambda name: ascii(name)[:20]
)
def test_group_of_any_name_is_kept_exactly(tmp_path: Path, name: str) -> None:
    at = TopicPartition("orders", 0)
    moves = (PositionMove(name, at, 5, at, 5, TranslationKind.EXACT, 0, 1),)
    positions.write(tmp_path, "RIGHT", moves)
    assert positions.read(tmp_path, "RIGHT") == moves
    step_output.write_rows(tmp_path, "move", [{"group": name}])
    assert list(step_output.read_rows(tmp_path, "move")) == [{"group": name}]
    part = ScorecardPart(groups=(GroupScore(group=name),))
    step_output.write_part(tmp_path, "move", part)
    assert step_output.read_part(tmp_path, "move").groups == part.groups
