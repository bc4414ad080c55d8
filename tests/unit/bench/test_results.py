"""Rows, what is kept of earlier runs, the goals' verdicts, and the tables that people read."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from repository_root import ROOT
from rich.console import Console

from bench import page, results, table
from bench.engines import ENGINES, properties, tuned
from bench.goals import GOALS, judge
from bench.results import METRICS, Machine, Results, Row, Run, merged, rows
from bench.workloads import WORKLOADS, Link

MACHINE = Machine(2, 25.2, "some CPU", "3.11.7", "17", "4.3.1", "0.1.0", "abc1234")


def run(workload: str, engine: str, problem: str = "", **metrics: float) -> Run:
    found = {name.replace("_", " "): v for name, v in metrics.items()}
    return Run(workload, engine, "2026-01-02T03:04:05+00:00", found, 0.5, 0.25, problem)


def test_results_row_is_median_with_extremes() -> None:
    runs = [run("a", "drlib", throughput=v) for v in (100.0, 300.0, 120.0)]
    assert rows(runs) == (Row("a", "drlib", "throughput", "MB/s", 120.0, 100.0, 300.0, 3),)


def test_results_failed_run_makes_no_row_and_is_reported() -> None:
    runs = [run("a", "drlib", throughput=100.0), run("a", "mm2", problem="TimeoutError: no record\nlog")]
    assert [row.engine for row in rows(runs)] == ["drlib"]
    assert table.problems(runs, "a") == ["mm2: TimeoutError: no record"]


def test_results_workload_run_again_replaces_only_itself() -> None:
    old = Results(MACHINE, (run("a", "drlib", throughput=1.0), run("b", "drlib", throughput=2.0)), {"a": "x", "b": "y"})
    new = Results(MACHINE, (run("a", "drlib", throughput=3.0),), {"a": "z"})
    assert [(r.workload, r.metrics["throughput"]) for r in merged(old, new, add=False).runs] == [("a", 3.0), ("b", 2.0)]
    assert [r.metrics["throughput"] for r in merged(old, new, add=True).runs] == [1.0, 3.0, 2.0]
    assert merged(old, new, add=False).sizes == {"a": "z", "b": "y"}
    assert merged(None, new, add=False) == new


def test_results_round_trip(tmp_path: Path) -> None:
    made = Results(MACHINE, (run("a", "drlib", throughput=1.0, cpu=2.0),), {"a": "a million"})
    results.write(tmp_path / "deep" / "latest.json", made)
    assert results.read(tmp_path / "deep" / "latest.json") == made
    assert results.read(tmp_path / "none.json") is None
    shown = json.loads((tmp_path / "deep" / "latest.json").read_text())
    assert shown["rows"][0] == {
        "workload": "a",
        "engine": "drlib",
        "metric": "throughput",
        "unit": "MB/s",
        "median": 1.0,
        "min": 1.0,
        "max": 1.0,
        "runs": 1,
    }


def found_for(workload: str, metric: str) -> list[tuple[float | None, bool | None]]:
    runs = [
        run("a", "drlib", throughput=100.0, cpu=2.0, first_record=1.5),
        run("a", "mm2-tuned", throughput=50.0, cpu=16.0),
    ]
    return [
        (v.found, v.met)
        for v in judge(rows(runs))
        if (v.goal.workload, v.goal.metric, bool(v.goal.against)) == (workload, metric, metric != "first record")
    ]


def test_goals_are_ratios_or_limits_and_open_where_nothing_was_measured() -> None:
    assert found_for("a", "throughput") == [(2.0, False)]
    assert found_for("a", "cpu") == [(0.125, True)]
    assert found_for("a", "first record") == [(1.5, True)]
    assert found_for("b", "throughput") == [(None, None)]


def test_goals_name_workloads_engines_and_metrics_there_are() -> None:
    for goal in GOALS:
        assert goal.metric in METRICS
        assert goal.engine in WORKLOADS[goal.workload].engines
        assert not goal.against or goal.against in WORKLOADS[goal.workload].engines
    assert {e for w in WORKLOADS.values() for e in w.engines} - {"floor"} == set(ENGINES)


def test_numbers_keep_three_digits() -> None:
    assert [table.number(x) for x in (0, 0.123, 1.234, 12.34, 123.4, 1234567.8)] == [
        "0",
        "0.12",
        "1.23",
        "12.3",
        "123",
        "1,234,568",
    ]
    assert table.cell(Row("a", "e", "cpu", "x", 2.0, 1.0, 3.0, 3)) == "2.00 (1.00-3.00)"
    assert (table.cell(Row("a", "e", "cpu", "x", 2.0, 2.0, 2.0, 1)), table.cell(None)) == ("2.00", "-")


@pytest.fixture
def made() -> Results:
    runs = (
        run("a", "drlib", throughput=100.0, cpu=2.0, memory=100.0),
        run("a", "mm2-tuned", throughput=50.0, cpu=16.0, memory=1500.0),
        run("a", "mm2", problem="TimeoutError: <script>alert(1)</script>"),
    )
    return Results(MACHINE, runs, {"a": "1,000,000 records"})


def test_results_tables_show_every_engine_unit_and_reason(made: Results) -> None:
    out = StringIO()
    Console(file=out, width=200).print(table.terminal(made))
    for text in (out.getvalue(), table.markdown(made)):
        for wanted in ("drlib", "mm2-tuned", "throughput, MB/s", "100", "1,500", "mm2: TimeoutError", "2.00 x", "0.25"):
            assert wanted in text
    assert "| throughput, MB/s | 100 | 50.0 |" in table.markdown(made)
    assert "| a | throughput: at least 2.5 x tuned MM2 | 2.00 x | missed |" in table.markdown(made)


def test_results_page_is_offline_and_escapes_text(made: Results, tmp_path: Path) -> None:
    page.write(tmp_path / "latest.html", made)
    text = (tmp_path / "latest.html").read_text()
    assert "<script>alert(1)" not in text
    assert "src=" not in text.split("<script>")[0]
    assert "&lt;script&gt;alert(1)" in text
    assert [bar.type for bar in page.figure(made, "a").data] == ["bar"] * 3


def test_tuning_is_written_where_mirror_maker_looks_for_it(tmp_path: Path) -> None:
    class Here:
        source = "127.0.0.1:1"
        target = "127.0.0.1:2"

    written = properties(Here(), WORKLOADS["a"], "x", tuned(WORKLOADS["a"], 2))  # type: ignore[arg-type]
    assert written["LEFTx.consumer.fetch.max.bytes"] == "52428800"
    assert written["TOx.producer.enable.idempotence"] == "true"
    assert written["LEFTx->TOx.tasks.max"] == "2"
    assert not [key for key in written if key.startswith(("consumer.", "producer.", "tasks."))]


def test_tuning_follows_the_workload() -> None:
    assert tuned(WORKLOADS["b"], 2)["producer.compression.type"] == "lz4"
    assert "producer.compression.type" not in tuned(WORKLOADS["a"], 2)
    far = replace(WORKLOADS["a"], link=Link.SOURCE)
    assert int(tuned(far, 1)["consumer.max.partition.fetch.bytes"]) > int(
        tuned(WORKLOADS["a"], 1)["consumer.max.partition.fetch.bytes"]
    )


def test_repeats_are_counted_by_the_engine_that_ran_most() -> None:
    runs = (run("a", "drlib"), run("a", "mm2"), run("a", "drlib"), run("b", "mm2"))
    assert [results.repeats(Results(MACHINE, runs), name) for name in "abc"] == [2, 1, 0]
    assert results.repeats(None, "a") == 0


def test_performance_page_shows_the_committed_results() -> None:
    root = ROOT
    last = results.read(root / "bench" / "results" / "latest.json")
    assert last is not None
    text = (root / "docs" / "performance.md").read_text()
    assert table.placed(text, last) == text, "docs/performance.md shows other results than latest.json holds"


def test_tables_go_between_the_marks_or_nowhere(made: Results) -> None:
    text = table.placed(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", made)
    assert text == f"before\n{table.BEGIN}\n{table.markdown(made)}{table.END}\nafter\n"
    with pytest.raises(ValueError, match="no <!-- results"):
        table.placed("nothing here", made)
