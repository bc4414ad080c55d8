"""The checks of a scorecard by severity, each once, for everything that people look at: what did not pass comes first.

Rules: the order is fail, unknown, conditions, not measured, pass, and within a state that of the scorecard. Checks of one name
are one row, with the most severe state, and each evidence once. A recovery time, a loss or a count that no objective asks for
and no step measured is a row of its own, so that its absence is seen. A verdict is never left without a row that explains it.
Not for: verdicts (`drlib.runs.verdict`). Pure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib import formats
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Scorecard
from drlib.ui import words

SHORT: Final = 150  # letters of evidence that are shown before it is opened


class State(StrEnum):
    """How a row is to be taken, most severe first. NOT_MEASURED has no verdict: nothing asked for it."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    CONDITIONS = "conditions"
    NOT_MEASURED = "not measured"
    PASS = "pass"


ORDER: Final = {state: number for number, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class Row:
    state: State
    name: str
    evidence: str

    @property
    def short(self) -> str:
        """The evidence, cut between two words where it is long."""
        if len(self.evidence) <= SHORT:
            return self.evidence
        cut = self.evidence[:SHORT]
        return f"{cut[: cut.rfind(' ') if cut.rfind(' ') > SHORT // 2 else SHORT].rstrip(' ,;:')} …"


def rows(card: Scorecard) -> tuple[Row, ...]:
    """All rows of a scorecard, most severe first."""
    found = [*_merged(card.checks), *_unexplained(card), *_not_measured(card)]
    return tuple(sorted(found, key=lambda row: ORDER[row.state]))


def open_rows(card: Scorecard) -> tuple[Row, ...]:
    """Those that did not pass."""
    return tuple(row for row in rows(card) if row.state is not State.PASS)


def _merged(checks: Iterable[Check]) -> Iterator[Row]:
    named: dict[str, list[tuple[State, str]]] = {}
    for check in checks:
        named.setdefault(check.name, []).append((State(check.verdict.value), check.evidence))
    for name, found in named.items():
        found.sort(key=lambda each: ORDER[each[0]])
        worst = found[0][0]
        parts = dict.fromkeys(text if state is worst else f"{state}: {text}" for state, text in found)
        yield Row(worst, name, "; ".join(parts))


def _unexplained(card: Scorecard) -> Iterator[Row]:
    """Why the verdict is what it is, where no check says so."""
    if not card.checks:
        yield Row(State.UNKNOWN, "no check was made", "so nothing is proven")
    conditions = any(check.verdict is Verdict.CONDITIONS for check in card.checks)
    lost = card.rpo.records if card.records.lost is None else card.records.lost
    if card.verdict is Verdict.CONDITIONS and lost and not conditions:
        allowed = card.objectives.rpo_records
        limit = "no objective limits it" if allowed is None else f"the objective allows {formats.records(allowed)}"
        produced = card.records.produced
        of = formats.records(lost)
        if produced is not None:
            of = f"{formats.count(lost)} of {formats.count(produced)} acknowledged records"
        yield Row(State.CONDITIONS, "lost records are counted", f"{of} were lost; {limit}")


def _not_measured(card: Scorecard) -> Iterator[Row]:
    if card.kind is Kind.ANALYSIS:
        return
    goals = card.objectives
    if card.rto_seconds.total is None and goals.rto_seconds is None:
        yield Row(State.NOT_MEASURED, "recovery time (RTO)", card.rto_seconds.why or words.NOT_MEASURED)
    unknown = card.rpo.records is None and card.rpo.seconds is None
    if unknown and goals.rpo_records is None and goals.rpo_seconds is None:
        yield Row(State.NOT_MEASURED, "data at risk (RPO)", card.rpo.why or words.NOT_MEASURED)
    if card.records.lost is None:
        yield Row(
            State.NOT_MEASURED, "records lost, duplicated and out of order", "no step of this drill counted records"
        )
