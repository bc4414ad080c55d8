"""Verdicts, stages and what a drill measured as text, the same in the terminal, in notebooks and in reports."""

from collections.abc import Mapping
from typing import Final

from drlib import formats
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Rpo

NOT_MEASURED: Final = "not measured by this drill"
NO_DRILL: Final = "does not apply: an analysis moves nothing"
STAGES: Final[Mapping[str, str]] = {
    "detect": "fault to noticed",
    "decide": "noticed to decided",
    "act": "decided to switched over",
    "verify": "switched over to proven",
}
VERDICTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.PASS: ("PASS", "Every check holds and nothing was lost."),
    Verdict.CONDITIONS: ("PASS WITH CONDITIONS", "Every check holds, on the conditions stated below."),
    Verdict.FAIL: ("FAIL", "At least one check does not hold."),
    Verdict.UNKNOWN: ("UNKNOWN", "Not proven: at least one check could not be made."),
}


def at_risk(rpo: Rpo) -> str:
    """ "118 records, 0.031 s"; "unknown" when neither is known, `NOT_MEASURED` when no step measured it."""
    if rpo.records is None and rpo.seconds is None:
        return formats.UNKNOWN if rpo.measured else NOT_MEASURED
    least = "at least " if rpo.at_least else ""
    return f"{least}{formats.records(rpo.records)}, {formats.seconds(rpo.seconds)}"


def kinds(positions: Mapping[str, int]) -> str:
    """ "11 exact, 1 behind", most first; "none" for no positions at all."""
    ordered = sorted(positions.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number:,} {kind}" for kind, number in ordered) or "none"
