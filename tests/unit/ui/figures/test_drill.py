"""The pictures of a drill's applications, drawn from literal histories."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drlib.drill.step import step_output as details
from drlib.drill.step.step_output import ScorecardPart
from drlib.lab.checker.history import Consumed, Produced, ProducedStatus, Row
from drlib.lab.checker.history_files import HistoryWriter
from drlib.runs.scorecard import Mark
from drlib.ui.figures.drill import order_figure, pulse_figure

T0 = 1_763_769_600_000


def read(group: str, key: str, n: int, at_ms: int, topic: str = "orders") -> Consumed:
    return Consumed(group, "RIGHT", topic, 0, n, f"{key}-{n}", key, n, T0 + at_ms)


def sent(number: int, at_ms: int) -> Produced:
    return Produced(str(number), "k", number, "LEFT", "orders", 0, number, T0 + at_ms, T0 + at_ms, ProducedStatus.ACKED)


@pytest.fixture
def drill(tmp_path: Path) -> Any:
    """As much of a drill as a picture looks at: its run folder and the names of its steps."""
    details.write_part(tmp_path, "kill", ScorecardPart(marks=(Mark(name="LEFT killed", at_ms=T0 + 2000),)))
    steps = [SimpleNamespace(name="start"), SimpleNamespace(name="kill")]
    return SimpleNamespace(workplace=SimpleNamespace(run_dir=tmp_path), drill=SimpleNamespace(steps=steps))


def write(drill: Any, name: str, rows: list[Row]) -> None:
    with HistoryWriter(drill.workplace.run_dir / "history" / f"{name}.jsonl") as history:
        history.append_all(rows)


def texts(figure: Any) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_pulse_figure_has_a_row_per_application_and_a_line_per_moment(drill: Any) -> None:
    write(drill, "producer", [sent(n, 100 * n) for n in range(40)])
    write(drill, "readers", [read("g", "k", n, 100 * n) for n in range(20)])
    write(drill, "guest", [read("g", "k", n, 10 * n) for n in range(10)])  # there for a moment only
    figure = pulse_figure(drill)
    assert len(figure.data) == 2
    assert {"producer", "readers", "LEFT killed"} <= set(texts(figure))
    assert "guest" not in texts(figure)
    assert sum(figure.data[0].y) / 2 == 40  # records per second in steps of half a second
    assert max(figure.data[1].y) == 10


def test_pulse_figure_draws_gaps(drill: Any) -> None:
    write(drill, "producer", [*(sent(n, n) for n in range(10)), *(sent(n, 3000 + n) for n in range(10, 20))])
    (only,) = pulse_figure(drill).data
    assert list(only.y) == [20, 0, 0, 0, 0, 0, 20]


def test_order_figure_shows_the_most_disordered_key_of_both_groups(drill: Any) -> None:
    write(drill, "one", [read("ordered", "a", n, n) for n in range(4)])
    mixed = [("a", 3), ("b", 1), ("a", 0), ("a", 1), ("b", 0), ("a", 2)]
    write(drill, "two", [read("ordinary", key, n, at) for at, (key, n) in enumerate(mixed)])
    figure = order_figure(drill)
    ordered, ordinary = figure.data
    assert list(ordered.y) == [0, 1, 2, 3]
    assert list(ordinary.y) == [3, 0, 1, 2]
    assert {"ordered", "ordinary"} <= {text.rpartition(" ")[2] for text in texts(figure)}


def test_drill_figures_without_data_say_so(drill: Any) -> None:
    assert any("No application has recorded" in text for text in texts(pulse_figure(drill)))
    assert any("No group has read anything yet" in text for text in texts(order_figure(drill)))
    write(drill, "one", [read("ordered", "a", n, n) for n in range(4)])
    assert any("No key was read out of order" in text for text in texts(order_figure(drill)))
