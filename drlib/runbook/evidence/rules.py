"""What follows from the runs of a year: results, gaps and remediation, trend, what is overdue or missing, the verdict. Pure.

Rules: only verified runs of the file's flows, on clusters of the file's kind, begun in the year, count; one run that is not as
it was written fails the package, of whatever year it is, as the year is in its name alone. A gap is remediated by a later
run of the same runbook and flow in which a check of that name passed, and by nothing else. No drill is no pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drlib.formats import utc
from drlib.runbook.evidence.package import (
    Gap,
    Hashes,
    Missing,
    Overdue,
    Package,
    Remediation,
    Result,
    RunEvidence,
    Scenario,
    System,
    TrendEvidence,
    Unverified,
)
from drlib.runbook.history_rules import Outcome, standing
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Scorecard

_GAPS = (Verdict.FAIL, Verdict.UNKNOWN)
_PASSED = (Verdict.PASS, Verdict.CONDITIONS)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of one verified run."""

    run: str
    card: Scorecard
    steps: tuple[str, ...]
    hypothesis: tuple[str, ...]
    hashes: Hashes

    @property
    def flow(self) -> str:
        return self.card.environment.get("flow", "")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the package is about: `environment` of the file's clusters, `every_hours` of each scheduled runbook."""

    year: int
    flows: tuple[str, ...]
    environment: str
    every_hours: Mapping[str, int]
    now_ms: int

    @property
    def begin_ms(self) -> int:
        return _ms(self.year)

    @property
    def end_ms(self) -> int:
        """The end of the year, or now if that comes first."""
        return min(_ms(self.year + 1), self.now_ms)


def build(
    scope: Scope, found: Iterable[Facts], unverified: Sequence[Unverified], not_finished: Sequence[str]
) -> Package:
    """The package of `found`, runs of any year and flow."""
    every = sorted(found, key=lambda each: (each.card.started_ms, each.run))
    of_year = [each for each in every if scope.begin_ms <= each.card.started_ms < _ms(scope.year + 1)]
    mine = [each for each in of_year if _in_scope(each, scope)]
    systems = tuple(_system(flow, mine) for flow in scope.flows)
    runs = tuple(_evidence(each, mine) for each in mine)
    overdue = tuple(_overdue(scope, [each for each in every if _in_scope(each, scope)]))
    missing = tuple(line for each in mine for line in _missing(each))
    verdict, why = _verdict(systems, runs, overdue, unverified, missing)
    return Package(
        year=scope.year,
        made=_iso(scope.now_ms),
        until=_iso(scope.end_ms),
        verdict=verdict,
        why=why,
        systems=systems,
        runs=runs,
        trend=tuple(_trends(mine, scope.end_ms)),
        overdue=overdue,
        unverified=tuple(unverified),
        not_finished=tuple(not_finished),
        left_out=tuple(each.run for each in of_year if not _in_scope(each, scope)),
        missing=missing,
    )


def _in_scope(each: Facts, scope: Scope) -> bool:
    where = each.card.environment.get("environment", scope.environment)
    return each.flow in scope.flows and where == scope.environment


def _came_to_a_verdict(each: Facts) -> bool:
    return each.card.kind is Kind.DRILL and each.card.verdict is not Verdict.UNKNOWN


def _system(flow: str, runs: Iterable[Facts]) -> System:
    drills = [each for each in runs if each.flow == flow and _came_to_a_verdict(each)]
    return System(
        flow=flow,
        drills=len(drills),
        passed=sum(each.card.verdict in _PASSED for each in drills),
        last_drill=_iso(drills[-1].card.started_ms) if drills else None,
    )


def _evidence(each: Facts, runs: Sequence[Facts]) -> RunEvidence:
    card = each.card
    return RunEvidence(
        run=each.run,
        runbook=card.runbook,
        flow=each.flow,
        kind=card.kind,
        environment=card.environment.get("environment"),
        started=_iso(card.started_ms),
        finished=_iso(card.finished_ms),
        verdict=card.verdict,
        scenario=Scenario(mode=card.environment.get("mode"), steps=each.steps, hypothesis=each.hypothesis),
        objectives=tuple(_results(card)),
        records=card.records,
        conditions=tuple(f"{c.name}: {c.evidence}" for c in card.checks if c.verdict is Verdict.CONDITIONS),
        gaps=tuple(_gaps(each, runs)),
        hashes=each.hashes,
    )


def _results(card: Scorecard) -> Iterator[Result]:
    """RTO and RPO of a drill; an analysis has none. By the objective's own check where there is one."""
    if card.kind is Kind.ANALYSIS:
        return
    goals, rto, rpo = card.objectives, card.rto_seconds, card.rpo
    met = {check.name.removeprefix("objective: "): check.verdict for check in card.checks}
    for name, goal, result, least, why in (
        ("RTO in seconds", goals.rto_seconds, rto.total, rto.at_least, rto.why),
        ("RPO in records", goals.rpo_records, rpo.records, None, rpo.why),
        ("RPO in seconds", goals.rpo_seconds, rpo.seconds, rpo.seconds_at_least, rpo.why),
    ):
        judged = {Verdict.FAIL: False, Verdict.PASS: True, Verdict.CONDITIONS: True}.get(met.get(name, Verdict.UNKNOWN))
        yield Result(
            name=name,
            objective=None if goal is None else float(goal),
            result=None if result is None else float(result),
            at_least=least,
            met=judged if goal is not None else None,
            why=why,
        )


def _gaps(each: Facts, runs: Sequence[Facts]) -> Iterator[Gap]:
    later = [
        other
        for other in runs
        if (other.card.started_ms, other.run) > (each.card.started_ms, each.run)
        and (other.card.runbook, other.flow) == (each.card.runbook, each.flow)
    ]
    for check in each.card.checks:
        if check.verdict not in _GAPS:
            continue
        by = next((other.run for other in later if _passed(other, check.name)), "")
        yield Gap(
            check=check.name,
            verdict=check.verdict,
            evidence=check.evidence,
            remediation=Remediation.VALIDATED if by else Remediation.OPEN,
            validated_by=by,
        )


def _passed(each: Facts, name: str) -> bool:
    """Did every check of that name pass?"""
    verdicts = [check.verdict for check in each.card.checks if check.name == name]
    return bool(verdicts) and all(verdict in _PASSED for verdict in verdicts)


def _trends(runs: Sequence[Facts], until_ms: int) -> Iterator[TrendEvidence]:
    drills = [each for each in runs if each.card.kind is Kind.DRILL]
    for runbook, flow in sorted({(each.card.runbook, each.flow) for each in drills}):
        outcomes = [_outcome(each) for each in drills if (each.card.runbook, each.flow) == (runbook, flow)]
        now = standing(runbook, outcomes, every_hours=None, now_ms=until_ms)
        yield TrendEvidence(
            runbook=runbook,
            flow=flow,
            drills=sum(each.counts for each in outcomes),
            rto=now.rto.direction.value,
            rto_change=now.rto.change,
            rpo=now.rpo.direction.value,
            rpo_change=now.rpo.change,
        )


def _overdue(scope: Scope, runs: Sequence[Facts]) -> Iterator[Overdue]:
    """As of the end of the year, or now; runs of earlier years count, as a schedule may be longer than a year."""
    outcomes = [_outcome(each) for each in runs if each.card.started_ms < scope.end_ms]
    for runbook, hours in sorted(scope.every_hours.items()):
        now = standing(runbook, outcomes, every_hours=hours, now_ms=scope.end_ms)
        if now.overdue:
            since = None if not now.due_ms else _iso(now.due_ms)
            yield Overdue(runbook=runbook, every_hours=hours, since=since)


def _outcome(each: Facts) -> Outcome:
    card = each.card
    return Outcome(
        each.run,
        card.runbook,
        card.started_ms,
        card.verdict.value,
        card.rto_seconds.total,
        card.rpo.records,
        card.rpo.seconds,
    )


def _missing(each: Facts) -> Iterator[Missing]:
    card = each.card
    if each.hashes.report is None:
        yield Missing(of=each.run, field="report", why="its folder has no report.html")
    if card.environment.get("environment") is None:
        yield Missing(of=each.run, field="environment", why="its scorecard does not say which clusters it was on")
    if card.kind is Kind.ANALYSIS:
        return
    if not each.steps:
        yield Missing(of=each.run, field="scenario", why="its folder has no plan")
    goals, rto, rpo = card.objectives, card.rto_seconds, card.rpo
    if goals.rto_seconds is None:
        yield Missing(of=each.run, field="RTO objective", why="the runbook sets none")
    if rto.total is None:
        yield Missing(of=each.run, field="RTO result", why=rto.why or "no step measured it")
    if goals.rpo_records is None and goals.rpo_seconds is None:
        yield Missing(of=each.run, field="RPO objective", why="the runbook sets none")
    if rpo.records is None and rpo.seconds is None:
        yield Missing(of=each.run, field="RPO result", why=rpo.why or "no step measured it")
    if card.records.lost is None:
        yield Missing(of=each.run, field="records", why="no step counted lost records")


def _verdict(
    systems: Sequence[System],
    runs: Sequence[RunEvidence],
    overdue: Sequence[Overdue],
    unverified: Sequence[Unverified],
    missing: Sequence[Missing],
) -> tuple[Verdict, tuple[str, ...]]:
    if unverified:
        return Verdict.FAIL, tuple(
            f"{each.run} is {each.evidence}: {'; '.join(each.differences)}" for each in unverified
        )
    untested = [each.flow for each in systems if not each.drills]
    if untested or not systems:
        lacking = f"no drill of {', '.join(untested)} came to a verdict" if untested else "no flow is enabled"
        return Verdict.UNKNOWN, (lacking,)
    gaps = sum(gap.remediation is Remediation.OPEN for each in runs for gap in each.gaps)
    why = tuple(
        said
        for count, said in (
            (gaps, f"open gaps: {gaps}"),
            (len(overdue), f"overdue: {', '.join(each.runbook for each in overdue)}"),
            (len(missing), f"missing fields: {len(missing)}"),
        )
        if count
    )
    return (Verdict.CONDITIONS, why) if why else (Verdict.PASS, ())


def _ms(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000)


def _iso(at_ms: int) -> str:
    return f"{utc(at_ms):%Y-%m-%dT%H:%M:%SZ}"
