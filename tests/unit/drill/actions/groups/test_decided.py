"""What a run keeps of moments and positions, and the arguments its steps are given."""

from pathlib import Path

import pytest

from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.step import arguments
from drlib.drill.step import rto_clock as moments
from drlib.errors import UsageError
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.scorecard import RtoSeconds


def test_stages_are_counted_from_the_mark_before_and_the_first_mark_counts(tmp_path: Path) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    moments.mark(tmp_path, "fault", 99_000)
    moments.mark(tmp_path, "detect", 10_250)
    moments.mark(tmp_path, "act", 12_000)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25)
    moments.mark(tmp_path, "decide", 11_000)
    moments.mark(tmp_path, "verify", 15_500)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25, decide=0.75, act=1.0, verify=3.5, total=5.5)
    with pytest.raises(ValueError, match="no stage"):
        moments.mark(tmp_path, "celebrate")


def test_positions_come_back_as_they_were_decided(tmp_path: Path) -> None:
    here, there = TopicPartition("orders", 3), TopicPartition("LEFT.orders", 3)
    moves = (
        PositionMove("billing", here, 70, there, 50, TranslationKind.BEHIND, 3, 1, "m", 20, "old"),
        PositionMove("billing", here, 70, there, None, TranslationKind.UNKNOWN, 0, 1, why="nobody knows"),
    )
    assert positions.read(tmp_path, "RIGHT") is None
    positions.write(tmp_path, "RIGHT", moves)
    assert positions.read(tmp_path, "RIGHT") == moves
    assert positions.read(tmp_path, "RIGHT", "shadow") is None
    assert [t.translation.offset for t in positions.as_translations(moves)] == [50, None]
    positions.forget(tmp_path, "RIGHT")
    assert positions.read(tmp_path, "RIGHT") is None


def test_arguments_are_of_the_type_that_is_meant() -> None:
    call = Call("lab.mirror", (Argument("number", 2), Argument("name", ""), Argument("on", False), Argument("of", "a")))
    assert arguments.number(call, "number", 1) == 2
    assert arguments.number(call, "lanes", 4) == 4
    assert arguments.word(call, "name", "usual") == "usual"
    assert arguments.flag(call, "on", True) is False
    assert arguments.texts(call, "of", ("b",)) == ("a",)
    with pytest.raises(UsageError, match=r"lab\.mirror: number"):
        arguments.word(call, "number", "")
    with pytest.raises(UsageError, match=r"lab\.mirror: on"):
        arguments.number(call, "on", 1)
    with pytest.raises(UsageError, match=r"lab\.mirror: number"):
        arguments.texts(call, "number", ())
