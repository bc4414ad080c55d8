"""What people see of an analysis: the picture of duplicates, the line that says how far Spark is, report and terminal."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from drlib.analysis.duplicates.result import Cause, DuplicateReport, Heat, unreadable
from drlib.analysis.spark.jobs import JobProgress, SparkFailed
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Records, Rpo, RtoSeconds, Scorecard
from drlib.ui.figures import figures
from drlib.ui.figures.duplicates import heat_figure
from drlib.ui.report.report import write_report
from drlib.ui.terminal.progress_bar import Bar
from drlib.ui.terminal.run import print_scorecard

T0 = 1_795_255_200_000  # 2026-11-21 10:00:00 UTC
REPORT = DuplicateReport(
    "LEFT.orders",
    Verdict.FAIL,
    (),
    counts={Cause.REPLICATOR: 42},
    heat=(Heat(2, T0, 30), Heat(2, T0 + 120_000, 10), Heat(0, T0 + 60_000, 2)),
    step_ms=60_000,
)


def card(*checks: Check) -> Scorecard:
    return Scorecard(
        runbook="duplicates-audit",
        run_id="20261121T100000Z-duplicates-audit-9f31c2",
        verdict=Verdict.PASS,
        rto_seconds=RtoSeconds(),
        rpo=Rpo(),
        records=Records(produced=100, mirrored=100, duplicated=0),
        groups=(),
        checks=checks or (Check(name="orders: nothing was copied twice", verdict=Verdict.PASS, evidence="0 of 100"),),
        started_ms=T0,
        finished_ms=T0 + 9000,
        kind=Kind.ANALYSIS,
    )


def test_duplicates_figure_labels_rows_and_states_units() -> None:
    figure = heat_figure({"orders": REPORT})
    (heat,) = figure.data
    assert list(heat.y) == ["orders-2", "orders-0"]
    assert [list(row) for row in heat.z] == [[30, None, 10], [None, 2, None]]
    assert {note.text for note in figure.layout.annotations} == {"<b>40</b>", "<b>2</b>"}
    assert "UTC (2026-11-21), in steps of 60 s" in figure.layout.xaxis.title.text
    assert (heat.colorbar.title.text, figure.layout.yaxis.title.text) == ("records", "partition")
    assert {colour for _, colour in heat.colorscale} <= {"#e8f1f8", figures.SKY, figures.BLUE}
    assert "http" not in json.dumps(json.loads(figure.to_json()))


def test_duplicates_figure_without_duplicates_says_so() -> None:
    none = replace(REPORT, heat=())
    unread = unreadable("t", "no such offsets")
    assert heat_figure({"t": none}).layout.annotations[0].text == "No duplicate was found."
    assert heat_figure({"t": unread}).layout.annotations[0].text == "No topic could be searched."
    assert heat_figure({}).layout.annotations[0].text == "No topic could be searched."
    some = heat_figure({"t": none, "u": unread}).layout.annotations[0].text
    assert some == "No duplicate was found. 1 of 2 topics could not be searched."
    many = DuplicateReport("t", Verdict.FAIL, (), heat=tuple(Heat(p, T0, p + 1) for p in range(50)), step_ms=1000)
    figure = heat_figure({"t": many})
    assert len(figure.data[0].y) == 40
    assert "10 more partitions are not drawn" in figure.layout.xaxis.title.text
    assert "t-49" in figure.data[0].y


def test_duplicates_figure_of_topics_far_apart_in_time_has_few_columns() -> None:
    """Each topic's own duplicates span minutes; drawn in such steps, three weeks between them are 172,000 columns."""
    later = replace(REPORT, heat=tuple(replace(cell, at_ms=cell.at_ms + 20 * 86_400_000) for cell in REPORT.heat))
    (heat,) = heat_figure({"orders": REPORT, "payments": later}).data
    assert len(heat.x) <= 61
    assert sum(records or 0 for row in heat.z for records in row) == 84


def test_progress_line_shows_how_far_spark_is() -> None:
    assert repr(Bar(JobProgress("orders", 0, 0, 2.0))) == "orders: waiting for Spark, 2.00 s"
    assert "6 of 12 tasks" in repr(Bar(JobProgress("orders", 6, 12, 2.0)))
    assert repr(Bar(JobProgress("orders", 12, 12, 3.0, over=True))) == "orders: done, 12 tasks in 3.00 s"
    assert "&lt;b&gt;" in Bar(JobProgress("<b>", 1, 2, 1.0))._repr_mimebundle_()["text/html"]


def test_spark_failure_is_one_sentence_without_stack() -> None:
    error = SparkFailed("orders", "java.lang.OutOfMemoryError: Java heap space\n\tat one.two.Three\n\tat four.Five\n")
    assert str(error).startswith("Spark failed: orders: java.lang.OutOfMemoryError: Java heap space. ")
    assert "one.two" not in str(error)


def test_analysis_report_says_that_recovery_time_does_not_apply(tmp_path: Path) -> None:
    page = write_report(card(), (), tmp_path, notebook=None).read_text()
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.S)
    assert "does not apply: an analysis moves nothing" in text
    assert "unknown" not in text.lower()
    assert "Lost records" not in text
    assert 'id="groups"' not in page
    assert 'href="#rto"' not in page
    assert "Mirrored" in text
    shown = io.StringIO()
    print_scorecard(card(), tmp_path / "report.html", Console(file=shown, width=80))
    assert "does not apply: an analysis moves nothing" in shown.getvalue()
    assert "100 mirrored, 0 duplicated" in shown.getvalue()
    assert "unknown" not in shown.getvalue()
