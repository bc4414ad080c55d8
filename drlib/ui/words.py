"""Verdicts, stages and what a drill measured as text, the same in the terminal, in notebooks and in reports."""

from collections.abc import Mapping
from typing import Final

from drlib import formats
from drlib.runs.check import Verdict
from drlib.runs.scorecard import ClientScore, Kind, Rpo, RtoSeconds, Scorecard

NOT_MEASURED: Final = "not measured by this drill"
NO_DRILL: Final = "does not apply: an analysis moves nothing"
STAGES: Final[Mapping[str, str]] = {
    "detect": "fault to noticed",
    "decide": "noticed to decided",
    "act": "decided to switched over",
    "verify": "switched over to the first record of the last application",
}
VERDICTS: Final[Mapping[Verdict, str]] = {
    Verdict.PASS: "PASS",
    Verdict.CONDITIONS: "PASS WITH CONDITIONS",
    Verdict.FAIL: "FAIL",
    Verdict.UNKNOWN: "UNKNOWN",
}
_MEANINGS: Final[Mapping[Verdict, str]] = {
    Verdict.PASS: "Every check holds",
    Verdict.CONDITIONS: "Every check holds, on the conditions stated below",
    Verdict.FAIL: "At least one check does not hold",
    Verdict.UNKNOWN: "Not proven: at least one check could not be made",
}


def meaning(card: Scorecard) -> str:
    """A verdict in one sentence. That nothing was lost is said only where records were counted."""
    counted = card.verdict is Verdict.PASS and card.kind is Kind.DRILL and card.records.lost == 0
    return f"{_MEANINGS[card.verdict]}{', and no acknowledged record was lost' if counted else ''}."


def at_risk(rpo: Rpo) -> str:
    """ "118 records, 0.031 s"; "unknown" when neither is known, `NOT_MEASURED` when no step measured it."""
    if rpo.records is None and rpo.seconds is None:
        return formats.UNKNOWN if rpo.measured else NOT_MEASURED
    least = "at least " if rpo.at_least and rpo.records is not None else ""
    span = formats.seconds(rpo.seconds)
    if rpo.seconds is not None and rpo.seconds_at_least is not None:
        span = f"{formats.seconds(rpo.seconds_at_least)} to {span}"
    return f"{least}{formats.records(rpo.records)}, {span}"


def served_again(rto: RtoSeconds) -> str:
    """ "3.21 s", "between 2.90 s and 3.21 s", or that it was not measured and why."""
    if rto.total is None:
        return f"not measured: {rto.why}" if rto.why else NOT_MEASURED
    if rto.at_least is not None:
        return f"between {formats.seconds(rto.at_least)} and {formats.seconds(rto.total)}"
    return formats.seconds(rto.total)


def re_read(counted: int | None, at_most: int | None) -> str:
    """Records that a group read again: as counted, else the most that was predicted."""
    if counted is None and at_most is not None:
        return f"at most {at_most:,}"
    predicted = "" if at_most is None else f" of at most {at_most:,}"
    return f"{formats.count(counted)}{predicted}"


NOT_KNOWN: Final = "-"  # of a client that did not get so far, or reports no such thing


def client(score: ClientScore) -> str:
    """The family, and what distinguishes this client from its others."""
    return " ".join([score.family, *score.settings, *(["(left behind)"] if score.left_behind else [])])


def after(seconds: float | None) -> str:
    """ "3.21 s", or that there is none."""
    return NOT_KNOWN if seconds is None else formats.seconds(seconds)


def sums(score: ClientScore) -> str:
    """Of a Kafka Streams application: whether its running sums are those of the records on the other cluster."""
    return NOT_KNOWN if score.sums_differ is None else "differ" if score.sums_differ else "equal"


def counted(many: int | None) -> str:
    return NOT_KNOWN if many is None else formats.count(many)


def kinds(positions: Mapping[str, int]) -> str:
    """ "11 exact, 1 behind", most first; "none" for no positions at all."""
    ordered = sorted(positions.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number:,} {kind}" for kind, number in ordered) or "none"
