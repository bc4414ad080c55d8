"""The package for people: all of it, and text of runs is no markup."""

from __future__ import annotations

import mistune
import pytest
import sample_scorecard as sample
from hostile_text import HOSTILE
from repository_root import ROOT

from drlib.runbook.evidence.package import FIELDS, NOT_RECORDED, Hashes, Unverified
from drlib.runbook.evidence.page import render
from drlib.runbook.evidence.rules import Facts, Scope, build
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Rpo

SCOPE = Scope(2026, ("paris->lyon",), "production", {"failover": 24}, sample.START * 2)


def made(text: str, *unverified: Unverified, judged: tuple[Check, ...] = ()) -> str:
    card = sample.scorecard(
        runbook=text,
        checks=(Check(text, Verdict.FAIL, text), Check("x", Verdict.CONDITIONS, text), *judged),
        verdict=Verdict.FAIL,
        environment={"flow": "paris->lyon", "environment": "production", "mode": text},
        rpo=Rpo(records=118, seconds=4.5, seconds_at_least=1.25),
    )
    hashes = Hashes(manifest="m" * 64, report=None, plan=None, journal=None)
    return render(build(SCOPE, [Facts(text, card, (text,), (), hashes)], unverified, [text]))


def test_render_has_every_field_and_what_is_not_recorded() -> None:
    page = made("failover")
    assert page.startswith("# Evidence of disaster-recovery drills, 2026: CONDITIONS\n")
    for field in (*FIELDS, *NOT_RECORDED):
        assert f"| {field.name} | {', '.join(field.articles)} | {field.what} |" in page
    assert "| `failover` | report | `its folder has no report.html` |" in page
    assert "| 8.145 of at most 30, not judged | 118 of at most 500, not judged | 1.25 to 4.5, no objective |" in page
    assert "| `failover` | `failover` | fail | `failover` | open |" in page


def test_render_says_which_objectives_were_met_by_their_checks() -> None:
    judged = Check("objective: RTO in seconds", Verdict.PASS, ""), Check("objective: RPO in records", Verdict.FAIL, "")
    assert "| 8.145 of at most 30, met | 118 of at most 500, missed | " in made("failover", judged=judged)


def test_render_of_a_changed_run_says_do_not_rely_first() -> None:
    page = made("failover", Unverified(run="r", evidence="contradictory", differences=("report.html: it is not ...",)))
    assert page.startswith(
        "# Evidence of disaster-recovery drills, 2026: FAIL\n\nAt least one run is not as it was written"
    )
    assert "| `r` | contradictory | `report.html: it is not ...` |" in page


@pytest.mark.parametrize("text", [*(each for each in HOSTILE.values() if each.strip()), "`a`` | <script>x</script>"])
def test_render_text_of_a_run_is_no_markup(text: str) -> None:
    page = made(text, Unverified(run=text, evidence="contradictory", differences=(text,)))
    shown = str(mistune.create_markdown(escape=False, plugins=["table"])(page))
    assert "<script" not in shown
    assert "\x1b" not in page
    assert "<a " not in shown


def test_fields_are_on_the_page_of_drills_as_they_are_here() -> None:
    page = (ROOT / "docs" / "drills.md").read_text()
    for field in (*FIELDS, *NOT_RECORDED):
        assert f"| {field.name} | {', '.join(field.articles)} | {field.what} |\n" in page
