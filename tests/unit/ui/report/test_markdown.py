"""The report as Markdown: complete, by severity, and nothing in it is markup."""

from __future__ import annotations

from pathlib import Path

import mistune
import pytest
import sample_scorecard as sample
from hostile_text import HOSTILE

from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import ClientScore, GroupScore, KeptTable, Kind, Mark
from drlib.ui.report.markdown import render


def test_render_has_verdict_checks_by_severity_objectives_and_appendix(tmp_path: Path) -> None:
    checks = (Check("a", Verdict.PASS, "1"), Check("b", Verdict.FAIL, "2"), Check("b", Verdict.FAIL, "2"))
    text = render(
        sample.scorecard(checks=checks, verdict=Verdict.FAIL), sample.journal(tmp_path), (("x.json", 3, "ab" * 32),)
    )
    assert text.startswith("# FAIL: `failover-drill` `20261121T100000Z-4be0a7`\n")
    assert text.count("`b`") == 1
    assert text.index("| fail | `b`") < text.index("| pass | `a`")
    assert "| recovery time (RTO) | `8.14 s` | 30.0 s |" in text
    assert "| data at risk (RPO) | 118 records, 0.031 s | 500 records |" in text
    for title in (
        "## Groups",
        "## Partitions",
        "## Appendix: timeline",
        "## Appendix: environment",
        "## Appendix: files",
    ):
        assert title in text
    assert "| `flights-5` |" in text


def test_render_analysis_has_no_objectives_and_an_unmeasured_drill_no_zero(tmp_path: Path) -> None:
    text = render(sample.scorecard(kind=Kind.ANALYSIS), (), ())
    assert "does not apply" in text
    assert "## Objectives" not in text
    unmeasured = render(sample.unmeasured(), (), ())
    assert "| 0 |" not in unmeasured
    assert "`not measured by this drill`" in unmeasured


@pytest.mark.parametrize("text", [*HOSTILE.values(), "`a`` | <script>x</script>"])
def test_render_text_of_a_run_is_no_markup(text: str) -> None:
    card = sample.scorecard(
        runbook=text,
        checks=(Check(text, Verdict.FAIL, f"<script>x</script> | {text}"),),
        groups=(GroupScore(group=text, positions={text: 1}),),
        clients=(ClientScore(family=text, library=text, version=text, verdict=Verdict.FAIL, why=text),),
        marks=(Mark(name=text, at_ms=1, detail=text),),
        environment={text: text},
    )
    made = render(card, (), ((text, 1, "00"),))
    page = str(mistune.create_markdown(escape=False, plugins=["table"])(made))
    assert "<script" not in page
    assert "\x1b" not in made
    widths = {line.count("<td") for line in page.split("</tr>")}
    assert widths <= {0, 2, 3, 4, 5, 11}


def test_render_tables_of_steps_say_what_they_leave_out() -> None:
    kept = KeptTable(
        title="Applications", caption="Who", heads=("a", "b"), rows=(("x|y", "<b>"),), left_out=3, file="f.json"
    )
    text = render(sample.scorecard(tables=(kept,)), (), ())
    assert "## Applications\n\nWho; 3 more are not listed here; the file `f.json`.\n\n| a | b |" in text
    assert "| `x\\|y` | `<b>` |" in text
