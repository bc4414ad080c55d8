"""From checks and objectives to one verdict and one exit code: pure, a table.

Rules: any failed check fails the drill; else anything unknown makes it unknown; else records lost within the objective
make it a pass with conditions, and so does a loss of which only the least is known, or nothing, as its source is gone. A missed
objective is a failed check of its own and exit code 7; any other failure 6. A figure with bounds is compared by both: only
the worst one passes. An objective that was not measured is unknown, with the reason, and so is one whose figure is no
amount (not a number, or below 0); without an objective it is stated only, except a loss that a step looked for: where it is
not known to be none, it is a condition. What is dated more than a day ahead has no age: the clocks of hosts that share a
folder differ by less.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from drlib.errors import Deviated, ObjectiveMissed
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Objectives, Records, Rpo, RtoSeconds

OBJECTIVE: Final = "objective: "
LOSS: Final = "how many records are missing is known"
EXIT_CODES: Final[Mapping[Verdict, int]] = {
    Verdict.PASS: 0,
    Verdict.CONDITIONS: 0,
    Verdict.FAIL: Deviated.exit_code,
    Verdict.UNKNOWN: Deviated.exit_code,
}
MOST_AHEAD_MS: Final = 86_400_000
LATER: Final = "records that the source acknowledged after its last answer are counted when it returns"


def objective_checks(objectives: Objectives, rto: RtoSeconds, rpo: Rpo) -> tuple[Check, ...]:
    """One check for each objective that is set. A range that straddles an objective is unknown, as is what was not measured."""
    rows = (
        ("RTO in", "seconds", objectives.rto_seconds, _bounds(rto.total, rto.at_least), False, rto.why),
        ("RPO in", "records", objectives.rpo_records, (rpo.records, rpo.records), rpo.at_least, rpo.why),
        (
            "RPO in",
            "seconds",
            objectives.rpo_seconds,
            _bounds(rpo.seconds, rpo.seconds_at_least),
            rpo.at_least,
            rpo.why,
        ),
    )
    return tuple(
        Check(f"{OBJECTIVE}{name} {unit}", *_compared(target, unit, least, most, gone, why))
        for name, unit, target, (least, most), gone, why in rows
        if target is not None
    )


def loss_checks(objectives: Objectives, rpo: Rpo, records: Records | None) -> tuple[Check, ...]:
    """The check of a loss that a step looked for, where no objective in records and no count of records is one."""
    if not rpo.measured or objectives.rpo_records is not None or records is not None:
        return ()
    number = rpo.records
    if number is None:
        why = f"; {rpo.why}" if rpo.why else ""
        return (Check(LOSS, Verdict.CONDITIONS, f"it is unknown, and no objective in records is set{why}"),)
    if rpo.at_least:
        return (
            Check(LOSS, Verdict.CONDITIONS, f"at least {_plain(number)}, and no objective in records is set; {LATER}"),
        )
    return ()


def lost_records(records: Records | None, rpo: Rpo) -> int | None:
    """The loss for `overall`: as all records were counted, else as a step that looked for it knows, 0 where none did."""
    return (rpo.records or 0) if records is None else records.lost


def _bounds(most: float | None, least: float | None) -> tuple[float | None, float | None]:
    """(least, most), where one of them alone is both."""
    return (most if least is None else least, least if most is None else most)


def _compared(
    target: float, unit: str, least: float | None, most: float | None, gone: bool, why: str
) -> tuple[Verdict, str]:
    """`gone`: the source is, and what it acknowledged later is counted when it returns."""
    if least is None or most is None or not all(math.isfinite(each) and each >= 0 for each in (least, most, target)):
        return Verdict.UNKNOWN, f"not measured{f': {why}' if why else ''}"
    most = max(least, most)
    allowed = f"of at most {_plain(target)} {unit}"
    if least > target:
        return (
            Verdict.FAIL,
            f"{'at least ' if least < most else ''}{_plain(least)} {allowed}: {_plain(least - target)} {unit} too many",
        )
    if most > target:
        return Verdict.UNKNOWN, f"not measured closely enough: between {_plain(least)} and {_plain(most)} {allowed}"
    if gone:
        known = f"at least {_plain(least)}" if least == most else f"between {_plain(least)} and {_plain(most)}"
        return Verdict.CONDITIONS, f"{known} {allowed}; {LATER}"
    return Verdict.PASS, f"{_plain(most)} {allowed}: {_plain(target - most)} {unit} to spare"


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


def ahead(at_ms: int, now_ms: int) -> bool:
    """Was a run dated by a clock that was wrong?"""
    return at_ms > now_ms + MOST_AHEAD_MS


def _plain(number: float) -> str:
    """At most three decimals, and every digit before them: a record too many must show."""
    return f"{number:,.3f}".rstrip("0").rstrip(".")
