"""What a year's runs are worth as evidence: never more than they say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import sample_scorecard as sample

from drlib.runbook.evidence.package import Hashes, Overdue, Package, Remediation, Unverified
from drlib.runbook.evidence.rules import Facts, Scope, build
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Objectives, Records, Rpo, RtoSeconds

FLOW = "paris->lyon"
HASHES = Hashes(manifest="m" * 64, report="r" * 64, plan="p" * 64, journal="j" * 64)
HELD = Check("every group continues", Verdict.PASS, "6 of 6")
BROKEN = Check("every group continues", Verdict.FAIL, "5 of 6")


def at(month: int, day: int, year: int = 2026) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


SCOPE = Scope(2026, (FLOW,), "production", {"failover": 24 * 90}, at(12, 1))


def facts(
    month: int, day: int = 1, *, year: int = 2026, flow: str = FLOW, on: str = "production", **changes: object
) -> Facts:
    given: dict[str, object] = {
        "runbook": "failover",
        "started_ms": at(month, day, year),
        "finished_ms": at(month, day, year) + 60_000,
        "checks": (HELD,),
        "verdict": Verdict.PASS,
        "environment": {"flow": flow, "environment": on, "mode": "planned"},
        **changes,
    }
    return Facts(f"{year}{month:02}{day:02}", sample.scorecard(**given), ("drain", "move"), ("lag is low",), HASHES)


def package(*found: Facts, scope: Scope = SCOPE, unverified: tuple[Unverified, ...] = ()) -> Package:
    return build(scope, found, unverified, ())


def test_build_year_of_complete_drills_passes_with_results_trend_and_hashes() -> None:
    made = package(facts(10), facts(2), facts(6, rto_seconds=RtoSeconds(total=9.0)))
    assert (made.verdict, made.why, made.missing) == (Verdict.PASS, (), ())
    assert [each.run for each in made.runs] == ["20260201", "20260601", "20261001"]
    (system,) = made.systems
    assert (system.drills, system.passed, system.last_drill) == (3, 3, "2026-10-01T00:00:00Z")
    rto = made.runs[1].objectives[0]
    assert (rto.name, rto.objective, rto.result) == ("RTO in seconds", 30.0, 9.0)
    assert made.runs[0].scenario.steps == ("drain", "move")
    assert made.runs[0].hashes == HASHES
    (trend,) = made.trend
    assert (trend.drills, trend.rto, trend.rpo) == (3, "steady", "steady")


def test_build_without_any_run_is_unknown_and_no_pass() -> None:
    made = package()
    assert (made.verdict, made.why) == (Verdict.UNKNOWN, (f"no drill of {FLOW} came to a verdict",))
    nothing = package(facts(3), scope=Scope(2026, (), "production", {}, at(12, 1)))
    assert (nothing.verdict, nothing.why) == (Verdict.UNKNOWN, ("no flow is enabled",))


@pytest.mark.parametrize(
    "other",
    [
        facts(3, year=2025),
        facts(1, year=2027),
        facts(3, flow="lyon->paris"),
        facts(3, on="lab"),
        facts(3, kind=Kind.ANALYSIS),
        facts(3, verdict=Verdict.UNKNOWN),
    ],
    ids=["year before", "year after", "other flow", "lab", "analysis", "unknown"],
)
def test_build_runs_that_prove_nothing_of_the_year_are_no_drill(other: Facts) -> None:
    assert package(other).verdict is Verdict.UNKNOWN
    with_one = package(other, facts(10))
    assert with_one.systems[0].drills == 1
    assert with_one.verdict is not Verdict.UNKNOWN


def test_build_names_what_is_left_out() -> None:
    assert package(facts(3, flow="lyon->paris"), facts(10)).left_out == ("20260301",)


def test_build_run_that_was_changed_fails_whatever_the_others_say() -> None:
    bad = Unverified(
        run="20260101T000000Z-x-abcdef", evidence="contradictory", differences=("report.html: it is not what ...",)
    )
    made = package(facts(10), unverified=(bad,))
    assert made.verdict is Verdict.FAIL
    assert made.why == ("20260101T000000Z-x-abcdef is contradictory: report.html: it is not what ...",)


def test_build_gap_is_open_until_a_later_run_of_the_same_runbook_passes_that_check() -> None:
    first = facts(2, checks=(BROKEN,), verdict=Verdict.FAIL)

    def gap(*others: Facts) -> tuple[Remediation, str]:
        (found,) = next(each for each in package(first, *others).runs if each.run == first.run).gaps
        return found.remediation, found.validated_by

    assert gap(facts(10)) == (Remediation.VALIDATED, "20261001")
    for no_proof in (
        facts(1),
        facts(10, checks=(BROKEN,), verdict=Verdict.FAIL),
        facts(10, checks=(HELD, BROKEN), verdict=Verdict.FAIL),
        facts(10, checks=(Check("another", Verdict.PASS, ""),)),
        facts(10, runbook="switchover"),
        facts(10, flow="lyon->paris"),
        facts(10, on="lab"),
    ):
        assert gap(no_proof) == (Remediation.OPEN, "")
    made = package(first, facts(10, runbook="switchover"))
    assert made.verdict is Verdict.CONDITIONS
    assert "open gaps: 1" in made.why


def test_build_missing_fields_are_listed_and_not_filled() -> None:
    bare = facts(
        10,
        objectives=Objectives(),
        rto_seconds=RtoSeconds(why="no fault was observed"),
        rpo=Rpo(measured=False),
        records=Records(),
        environment={"flow": FLOW},
    )
    made = package(Facts(bare.run, bare.card, (), (), Hashes(manifest="m", report=None, plan=None, journal=None)))
    assert {each.field: each.why for each in made.missing} == {
        "report": "its folder has no report.html",
        "environment": "its scorecard does not say which clusters it was on",
        "scenario": "its folder has no plan",
        "RTO objective": "the runbook sets none",
        "RTO result": "no fault was observed",
        "RPO objective": "the runbook sets none",
        "RPO result": "no step measured it",
        "records": "no step counted lost records",
    }
    assert made.verdict is Verdict.CONDITIONS
    (run,) = made.runs
    assert [(each.objective, each.result, each.met) for each in run.objectives] == [(None, None, None)] * 3
    assert (run.environment, run.scenario.mode, run.hashes.report) == (None, None, None)


@pytest.mark.parametrize(
    ("verdict", "met"),
    [(Verdict.PASS, True), (Verdict.CONDITIONS, True), (Verdict.FAIL, False), (Verdict.UNKNOWN, None)],
)
def test_build_objective_is_met_as_its_check_says(verdict: Verdict, met: bool | None) -> None:
    made = package(facts(10, checks=(Check("objective: RTO in seconds", verdict, ""),)))
    assert made.runs[0].objectives[0].met is met


@pytest.mark.parametrize(
    ("found", "overdue"),
    [
        ((facts(10),), ()),
        ((facts(3),), (Overdue(runbook="failover", every_hours=2160, since="2026-05-30T00:00:00Z"),)),
        ((facts(11, year=2025),), (Overdue(runbook="failover", every_hours=2160, since="2026-01-30T00:00:00Z"),)),
        ((), (Overdue(runbook="failover", every_hours=2160, since=None),)),
    ],
)
def test_build_overdue_as_of_now_or_the_end_of_the_year(found: tuple[Facts, ...], overdue: tuple[Overdue, ...]) -> None:
    assert package(*found).overdue == overdue


def test_build_overdue_of_a_past_year_is_as_of_its_end() -> None:
    later = Scope(2026, (FLOW,), "production", {"failover": 24 * 90}, at(6, 1, 2027))
    made = package(facts(11), scope=later)
    assert (made.until, made.overdue) == ("2027-01-01T00:00:00Z", ())
