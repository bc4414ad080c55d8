"""What a run decided of positions is kept in its folder."""

from pathlib import Path

from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.model import TopicPartition, TranslationKind


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
