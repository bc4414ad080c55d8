"""From checks and objectives to one verdict and one exit code: pure, a table.

Rules: any failed check fails the drill; else anything unknown makes it unknown; else records lost within the objective
make it a pass with conditions, and so does a loss of which only the least is known, as its source is gone. A missed
objective is a failed check of its own and exit code 7; any other failure 6.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from drlib.errors import Deviated, ObjectiveMissed
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Objectives, Rpo, RtoSeconds

OBJECTIVE: Final = "objective: "
EXIT_CODES: Final[Mapping[Verdict, int]] = {
    Verdict.PASS: 0,
    Verdict.CONDITIONS: 0,
    Verdict.FAIL: Deviated.exit_code,
    Verdict.UNKNOWN: Deviated.exit_code,
}
LATER: Final = "records that the source acknowledged after its last answer are counted when it returns"


def objective_checks(objectives: Objectives, rto: RtoSeconds, rpo: Rpo) -> tuple[Check, ...]:
    """One check for each objective that is set."""
    pairs = (
        ("RTO in seconds", objectives.rto_seconds, rto.total, False),
        ("RPO in records", objectives.rpo_records, rpo.records, rpo.at_least),
        ("RPO in seconds", objectives.rpo_seconds, rpo.seconds, rpo.at_least),
    )
    checks = []
    for name, target, achieved, at_least in pairs:
        if target is None:
            continue
        if achieved is None:
            checks.append(Check(name=OBJECTIVE + name, verdict=Verdict.UNKNOWN, evidence="not measured"))
            continue
        verdict = Verdict.PASS if achieved <= target else Verdict.FAIL
        if at_least and verdict is Verdict.PASS:
            evidence = f"at least {_plain(achieved)} of at most {_plain(target)}; {LATER}"
            checks.append(Check(name=OBJECTIVE + name, verdict=Verdict.CONDITIONS, evidence=evidence))
            continue
        margin = target - achieved
        evidence = f"{_plain(achieved)} of at most {_plain(target)}, margin {_plain(margin)}"
        checks.append(Check(name=OBJECTIVE + name, verdict=verdict, evidence=evidence))
    return tuple(checks)


def overall(checks: Iterable[Check], lost: int | None) -> Verdict:
    """The verdict of a drill. No checks at all is unknown."""
    verdicts = [check.verdict for check in checks]
    if not verdicts:
        return Verdict.UNKNOWN
    for worst in (Verdict.FAIL, Verdict.UNKNOWN):
        if worst in verdicts:
            return worst
    if lost is None:
        return Verdict.UNKNOWN
    return Verdict.CONDITIONS if lost or Verdict.CONDITIONS in verdicts else Verdict.PASS


def exit_code(verdict: Verdict, checks: Iterable[Check]) -> int:
    """The exit code of a finished drill: 7 when nothing but objectives failed."""
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    if failed and all(check.name.startswith(OBJECTIVE) for check in failed):
        return ObjectiveMissed.exit_code
    return EXIT_CODES[verdict]


def _plain(number: float) -> str:
    """At most three decimals, and every digit before them: a record too many must show."""
    return f"{number:.3f}".rstrip("0").rstrip(".")
