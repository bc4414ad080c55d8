"""Figures of a failover: who was served when, and where groups resumed, from literal histories."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drlib.analysis.audit.result import CheckpointAudit
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output as details
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed import sampler
from drlib.lab.checker.history import CommitStatus, Committed, Consumed, Produced, ProducedStatus, Row
from drlib.lab.checker.history_files import HistoryWriter
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs.scorecard import Mark, Sample
from drlib.ui.figures.failover import failover_figure
from drlib.ui.figures.positions import checkpoints_figure, positions_figure, standing_figure

T0 = 1_763_769_600_000
FAULT = T0 + 5000


def sent(n: int, *, partition: int = 0, cluster: str = "LEFT", at: int = 0) -> Produced:
    """Record n, at offset 2n: every other offset is a marker's."""
    return Produced(f"{partition}-{n}", "k", n, cluster, "t", partition, 2 * n, T0 + at, T0 + at, ProducedStatus.ACKED)


def had(
    group: str, position: int, at: int, *, partition: int = 0, status: CommitStatus = CommitStatus.ACKED
) -> Committed:
    return Committed(group, "LEFT", "t", partition, position, T0 + at, status)


def read(group: str, n: int, at: int, *, partition: int = 0, topic: str = "LEFT.t", cluster: str = "RIGHT") -> Consumed:
    return Consumed(group, cluster, topic, partition, n + 100, f"{partition}-{n}", "k", n, T0 + at)


@pytest.fixture
def drill(tmp_path: Path) -> Any:
    """As much of a drill as pictures look at: what is in its run folder, the names of its steps, its flow."""
    steps = [SimpleNamespace(name="kill"), SimpleNamespace(name="move")]
    return SimpleNamespace(
        workplace=SimpleNamespace(run_dir=tmp_path), drill=SimpleNamespace(steps=steps, flow=Flow("LEFT", "RIGHT"))
    )


def write(drill: Any, name: str, *rows: Row) -> None:
    with HistoryWriter(drill.workplace.run_dir / "history" / f"{name}.jsonl") as history:
        history.append_all(list(rows))


def died(drill: Any) -> None:
    """A producer and a reader of LEFT until 5 s, of RIGHT from 8 s on."""
    run_dir = drill.workplace.run_dir
    moments.mark(run_dir, "fault", FAULT)
    details.write_part(run_dir, "kill", ScorecardPart(marks=(Mark(name="LEFT killed", at_ms=FAULT),)))
    details.write_part(run_dir, "move", ScorecardPart(marks=(Mark(name="applications moved", at_ms=FAULT + 1000),)))
    write(
        drill,
        "flights",
        *(sent(n, at=100 * n) for n in range(50)),
        *(sent(n, at=3000 + 100 * n, cluster="RIGHT") for n in range(50, 80)),
    )
    write(
        drill,
        "readers",
        *(read("g", n, 100 * n, topic="t", cluster="LEFT") for n in range(40)),
        had("g", 80, 4000),
        *(read("g", n, 8000 + 10 * n) for n in range(38, 45)),
    )
    sample = Sample(at_ms=FAULT - 1000, produced=40, mirrored=45, consumed={})
    (run_dir / sampler.FILE).write_text(sample.model_dump_json() + "\n")


def texts(figure: Any) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_failover_figure_counts_acknowledged_records_at_fault(drill: Any) -> None:
    died(drill)
    figure = failover_figure(drill)
    text = " | ".join(texts(figure))
    assert "acknowledged <b>+11</b>" in text  # within three seconds of the last moment
    assert "mirrored <b>-5</b>" in text
    assert "read by g <b>-5</b>" in text  # 45 of 50; two were read again and are counted once
    assert {"LEFT killed", "applications moved"} <= set(texts(figure))
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [(bar.y[0], bar.hovertemplate.split("<br>")[0]) for bar in bars] == [
        ("flights", "flights: t on LEFT"),
        ("flights", "flights: t on RIGHT"),
        ("readers", "readers: t on LEFT"),
        ("readers", "readers: LEFT.t on RIGHT"),
    ]
    assert "UTC" in figure.layout.xaxis2.title.text
    assert not figure.layout.showlegend


def test_positions_figure_compares_translations_with_histories(drill: Any) -> None:
    died(drill)
    at, there = TopicPartition("t", 0), TopicPartition("LEFT.t", 0)
    write(drill, "late", had("g", 4, 4100, partition=1))
    moves = [PositionMove("g", at, 76, there, 138, TranslationKind.EXACT, 0, FAULT)]
    positions.write(drill.workplace.run_dir, "RIGHT", moves)
    figure = positions_figure(drill)
    said = texts(figure)
    assert "exact; 2 read again, its last commits were lost with the source" in said
    assert "no position was mirrored; nothing was left to read" in said
    again, skipped, exact, unknown = figure.data
    assert dict(zip(again.y, again.x, strict=True)) == {"g: t-0": -2, "g: t-1": 0}
    assert set(skipped.x) == {0}
    assert (list(exact.y), list(unknown.y)) == ([], ["g: t-1"])


def test_positions_figure_draws_checkpoints_and_unknown() -> None:
    def found(group: str, again: int | None, skipped: int | None) -> CheckpointAudit:
        return CheckpointAudit(group, TopicPartition("LEFT.t", 0), 10, 20, again, skipped)

    reported = [found("ours", 0, 0), found("mm2", 43, 0), found("bad", 0, 2), found("odd", None, None)]
    audit: Any = SimpleNamespace(results={"t": SimpleNamespace(checkpoints=reported)})
    figure = checkpoints_figure(audit)
    assert {"exact", "43 read again", "2 never read", "unknown: no pair of copies"} == set(texts(figure))
    again, skipped, exact, unknown = figure.data
    assert (min(again.x), max(skipped.x)) == (-43, 2)
    assert (list(exact.y), list(unknown.y)) == (["ours: LEFT.t-0"], ["odd: LEFT.t-0"])


def test_failover_figures_without_data_say_so(drill: Any) -> None:
    assert "has not died" in texts(failover_figure(drill))[0]
    moments.mark(drill.workplace.run_dir, "fault", FAULT)
    assert "recorded anything" in texts(failover_figure(drill))[0]
    assert "No position was translated" in texts(positions_figure(drill))[0]
    assert "No group has a position" in texts(standing_figure("any", []))[0]
