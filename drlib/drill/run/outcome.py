"""How a run ended: a result, or the error with its exit code, explained from its journal.

Rules: what was not undone is always named, and so is the reason, as the journal has it. An objective that was not measured
is not met. How long a run took says nothing about how long applications were not served, so it is never the RTO.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drlib.drill.plan.plan import Drill
from drlib.drill.plan.progress import Noted, Outcome, Reach, RunOutcome
from drlib.drill.plan.ways_on import WaysOn
from drlib.errors import Aborted, Deviated, DeviatedRolledBack, HypothesisFailed, ObjectiveMissed
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Line, Scalar
from drlib.runs.scorecard import Rpo, RtoSeconds

# a later step's figure replaces the earlier whole
_RPO = frozenset({"rpo_records", "rpo_seconds", "rpo_at_least", "rpo_seconds_at_least", "rpo_why"})
_RTO = frozenset({"rto_seconds", "rto_at_least", "rto_why"})
_REASONS = frozenset({Noted.UNDO_FAILED, Noted.STEP_FAILED, Noted.HYPOTHESIS_FAILED, Noted.ABORT_REQUESTED})
NO_STEP = "no step observed when applications are served again"


@dataclass(frozen=True, slots=True)
class Result:
    """A run that passed. `checks` are its objectives."""

    ending: RunOutcome
    checks: tuple[Check, ...]


def close(drill: Drill, ending: RunOutcome, lines: Sequence[Line], on: WaysOn) -> Result:
    """The result of a run. `on`: how to go on with it where it left changes.

    Raises `HypothesisFailed`, `Aborted`, `Deviated`, `DeviatedRolledBack` or `ObjectiveMissed`, as it ended.
    """
    what, why = f"{drill.name} {describe(ending)}", _why(lines)
    further = "Every change was undone. See its journal."
    if ending.standing:
        why = f"{why}; not undone: {', '.join(ending.standing)}"
        further = on.sentence
        if _is_unknown(_last(lines)) and not on.again:
            further = f"{further} Where that stays unknown, a new run gives it up: --supersede {on.run}."
    match ending.outcome:
        case Outcome.HYPOTHESIS_FAILED:
            raise HypothesisFailed(what, why, "Nothing was changed. Make the hypothesis hold, then plan again.")
        case Outcome.ABORTED:
            raise Aborted(what, why, further)
        case Outcome.SUPERSEDED:
            left = f"not undone: {', '.join(ending.standing)}" if ending.standing else "it left no change"
            raise Aborted(what, left, "It cannot be resumed or rolled back: another run has the flow.")
        case Outcome.DEVIATED:
            raise (Deviated if ending.standing else DeviatedRolledBack)(what, why, further)
        case Outcome.PASSED:
            checks = verdicts.objective_checks(drill.objectives, *measured(lines))
            missed = [check for check in checks if check.verdict not in (Verdict.PASS, Verdict.CONDITIONS)]
            if missed:
                raise _missed(drill.name, missed)
            return Result(ending, checks)


def _missed(name: str, checks: Sequence[Check]) -> ObjectiveMissed:
    """Of `checks` of objectives that did not pass: one that was compared was missed, one without a figure was not measured."""
    known = [check for check in checks if check.verdict is Verdict.FAIL]
    what = f"{name} missed an objective" if known else f"{name} is not proven"
    others = "" if known else ", and no objective that was measured was missed"
    return ObjectiveMissed(what, "; ".join(map(_said, checks)), f"Every step is done{others}. See its scorecard.")


def _said(check: Check) -> str:
    name = check.name.removeprefix(verdicts.OBJECTIVE)
    return f"{name}: {check.evidence}" if check.verdict is Verdict.FAIL else f"{name} was {check.evidence}"


def describe(ending: RunOutcome) -> str:
    """How it ended, as a verb."""
    match ending.outcome:
        case Outcome.PASSED:
            return "passed"
        case Outcome.HYPOTHESIS_FAILED:
            return "did not begin"
        case Outcome.DEVIATED:
            return "deviated" if ending.standing else "deviated and was rolled back"
        case Outcome.ABORTED:
            return "was aborted"
        case Outcome.SUPERSEDED:
            return f"was superseded by {ending.by}"


def _last(lines: Sequence[Line]) -> Line | None:
    """The last line that has a reason; None where none does."""
    return next((line for line in reversed(lines) if line.event in _REASONS or _is_unknown(line)), None)


def _is_unknown(line: Line | None) -> bool:
    return line is not None and line.event == Noted.PROBED and line.data["detail"] == Reach.UNKNOWN


def _why(lines: Sequence[Line]) -> str:
    """The reason, from the last line that has one."""
    if (line := _last(lines)) is None:
        return "it was asked for"
    data = line.data
    match line.event:
        case Noted.UNDO_FAILED | Noted.STEP_FAILED:
            return f"{line.event} {data['step']}: {data['error']}"
        case Noted.HYPOTHESIS_FAILED:
            return f"'{data['expectation']}' {data['evidence']}"
        case Noted.ABORT_REQUESTED:
            return f"{data['detail']} asked for it"
    evidence = data["evidence"] or "what it changes is neither as before nor as planned"
    return f"drlib does not know whether step {data['step']} changed anything: {evidence}"


def measured(lines: Sequence[Line]) -> tuple[RtoSeconds, Rpo]:
    """What the steps measured."""
    values: dict[str, Scalar] = {}
    for line in lines:
        if line.event == Noted.STEP_SUCCEEDED:
            for figure in (_RPO, _RTO):
                now = {name: value for name, value in line.data.items() if name in figure}
                if now:
                    values = {name: value for name, value in values.items() if name not in figure} | now
    rto = {
        "total": values.get("rto_seconds"),
        "at_least": values.get("rto_at_least"),
        "why": values.get("rto_why", "" if "rto_seconds" in values else NO_STEP),
    }
    rpo = {
        "records": values.get("rpo_records"),
        "seconds": values.get("rpo_seconds"),
        "at_least": values.get("rpo_at_least", False),
        "seconds_at_least": values.get("rpo_seconds_at_least"),
        "why": values.get("rpo_why", ""),
        "measured": not values.keys().isdisjoint({"rpo_records", "rpo_seconds"}),
    }
    return RtoSeconds.model_validate(rto), Rpo.model_validate(rpo)
