"""What a run came to: a result, or the error whose exit code says it, in words from its journal.

Rules: what stands is always named, and so is the reason, as the journal has it. An objective that was not measured was
not kept. Without a measurement of its own, RTO is the time from the first step's beginning to the last step's end, by
the journal's clock and with every pause in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from drlib.drill.plan.plan import Drill
from drlib.drill.plan.progress import Noted, Outcome, Reach, RunOutcome
from drlib.errors import Aborted, Deviated, DeviatedRolledBack, HypothesisFailed, ObjectiveMissed
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Line, Scalar
from drlib.runs.scorecard import Rpo, RtoSeconds

_RPO = frozenset({"rpo_records", "rpo_seconds", "rpo_at_least"})  # a later step's count replaces the earlier whole


@dataclass(frozen=True, slots=True)
class Result:
    """A run that passed. `checks` are its objectives."""

    ending: RunOutcome
    checks: tuple[Check, ...]


def close(drill: Drill, ending: RunOutcome, lines: Sequence[Line]) -> Result:
    """Raises `HypothesisFailed`, `Aborted`, `Deviated`, `DeviatedRolledBack` or `ObjectiveMissed`, as it ended."""
    what, told = f"{drill.name} {said(ending)}", _why(lines)
    stands = f"; in place: {', '.join(ending.standing)}" if ending.standing else ""
    further = "Resume it, or roll it back." if ending.standing else "Nothing of it stands. See its journal."
    match ending.outcome:
        case Outcome.HYPOTHESIS_FAILED:
            raise HypothesisFailed(what, told, "Nothing was done. Make the hypothesis hold, then plan again.")
        case Outcome.ABORTED:
            raise Aborted(what, told + stands, further)
        case Outcome.DEVIATED:
            raise (Deviated if ending.standing else DeviatedRolledBack)(what, told + stands, further)
        case Outcome.PASSED:
            checks = _objectives(drill, lines)
            missed = [check for check in checks if check.verdict not in (Verdict.PASS, Verdict.CONDITIONS)]
            if missed:
                why = "; ".join(f"{check.name.removeprefix(verdicts.OBJECTIVE)}: {check.evidence}" for check in missed)
                raise ObjectiveMissed(f"{drill.name} missed an objective", why, "What it changed is as planned.")
            return Result(ending, checks)


def said(ending: RunOutcome) -> str:
    """The verb of an ending."""
    match ending.outcome:
        case Outcome.PASSED:
            return "passed"
        case Outcome.HYPOTHESIS_FAILED:
            return "did not begin"
        case Outcome.DEVIATED:
            return "deviated" if ending.standing else "deviated and was rolled back"
        case Outcome.ABORTED:
            return "was aborted"


def _why(lines: Sequence[Line]) -> str:
    """The reason, as the last line that has one says it."""
    for line in reversed(lines):
        data = line.data
        match line.event:
            case Noted.UNDO_FAILED | Noted.STEP_FAILED:
                return f"{line.event} {data['step']}: {data['error']}"
            case Noted.HYPOTHESIS_FAILED:
                return f"'{data['expectation']}' {data['evidence']}"
            case Noted.ABORT_REQUESTED:
                return f"{data['detail']} asked for it"
            case Noted.PROBED if data["detail"] == Reach.UNKNOWN:
                return f"how far {data['step']} came cannot be told: {data['evidence'] or 'it is neither before nor after'}"
    return "somebody asked for it"


def measured(lines: Sequence[Line]) -> tuple[RtoSeconds, Rpo]:
    """What the steps measured; for RTO, where none did, the time from the first step's beginning to the last's end."""
    told: dict[str, Scalar] = {}
    for line in lines:
        if line.event == Noted.STEP_SUCCEEDED:
            said = {name: value for name, value in line.data.items() if name in _RPO | {"rto_seconds"}}
            told = ({k: v for k, v in told.items() if k not in _RPO} if said.keys() & _RPO else told) | said
    began = [datetime.fromisoformat(line.at) for line in lines if line.event == Noted.STEP_STARTED]
    ended = [datetime.fromisoformat(line.at) for line in lines if line.event == Noted.STEP_SUCCEEDED]
    elapsed = (ended[-1] - began[0]).total_seconds() if began and ended else None
    rpo = {
        "records": told.get("rpo_records"),
        "seconds": told.get("rpo_seconds"),
        "at_least": told.get("rpo_at_least", False),
        "measured": not told.keys().isdisjoint({"rpo_records", "rpo_seconds"}),
    }
    return RtoSeconds.model_validate({"total": told.get("rto_seconds", elapsed)}), Rpo.model_validate(rpo)


def _objectives(drill: Drill, lines: Sequence[Line]) -> tuple[Check, ...]:
    """The drill's objectives against what its steps measured."""
    return verdicts.objective_checks(drill.objectives, *measured(lines))
