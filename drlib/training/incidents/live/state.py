"""What the public journal of an incident says at one moment: periods of symptoms, moves with their outcome, times.

Rules: pure, and made of lines of the public journal alone, which say nothing of causes. The level that was asked for
and the text of a hint are left out. A symptom is present until the journal says that it is gone, and known up to the newest
observation.
Not for: judging moves (`drlib.training.incidents.rules.score`), which players see after the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from drlib.errors import UsageError
from drlib.runs.journal import Line
from drlib.training.incidents.rules.moves import ACKNOWLEDGE
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.team.seats import seats_of

OLD_MS: Final = 20_000  # an observation takes seconds while a site does not answer


class Kind(StrEnum):
    MOVE = "move"
    FAILED = "failed move"
    DIAGNOSIS = "diagnosis"
    HINT = "hint"
    UNDER_WAY = "under way"


@dataclass(frozen=True, slots=True)
class Period:
    """When a symptom was seen, ms since the epoch. `until_ms`: None while it is present."""

    symptom: str
    from_ms: int
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Made:
    """One move, diagnosis or hint. `outcome`: what it answered."""

    at_ms: int
    kind: Kind
    text: str
    outcome: str = ""
    seat: str = ""


@dataclass(frozen=True, slots=True)
class LiveState:
    """Times in ms since the epoch. `now_ms`: of a finished incident its end. `seen_ms`: of the newest observation; None before
    the first one. `acknowledged_ms`: of the first acknowledgement. `seats`: of a team, with what each may do."""

    started_ms: int
    now_ms: int
    seen_ms: int | None
    periods: tuple[Period, ...]
    made: tuple[Made, ...]
    acknowledged_ms: int | None
    finished: bool
    seats: tuple[str, ...] = ()

    @property
    def present(self) -> tuple[str, ...]:
        """The symptoms at the newest observation."""
        return tuple(period.symptom for period in self.periods if period.until_ms is None)

    @property
    def known(self) -> bool:
        """Report whether the newest observation is recent enough to say what is present."""
        return self.finished or (self.seen_ms is not None and self.now_ms - self.seen_ms <= OLD_MS)

    def end_ms(self, period: Period) -> int:
        """Up to when a symptom is known to have been present."""
        if period.until_ms is not None:
            return period.until_ms
        return max(period.from_ms, self.now_ms if self.finished or self.seen_ms is None else self.seen_ms)


def live_state(lines: Sequence[Line], now_ms: int, seen_ms: int | None) -> LiveState:
    """Read the lines of a public journal, oldest first. Raises `UsageError` for one that no incident writes."""
    periods: list[Period] = []
    made: list[Made] = []
    acknowledged_ms = finished_ms = None
    for line in lines:
        at_ms, word, seat = moment_ms(line), str(line.data.get("word", "")), str(line.data.get("seat", ""))
        match _kind(line):
            case EventKind.SYMPTOM:
                periods.append(Period(word, at_ms, None))
            case EventKind.SYMPTOM_GONE:
                periods = [_ended(period, word, at_ms) for period in periods]
            case EventKind.ACTED:
                move, failed = str(line.data.get("move", "")), bool(line.data.get("failed", False))
                made = [one for one in made if one.kind is not Kind.UNDER_WAY or one.seat != seat]
                made.append(
                    Made(at_ms, Kind.FAILED if failed else Kind.MOVE, move, str(line.data.get("said", "")), seat)
                )
                if move == ACKNOWLEDGE and acknowledged_ms is None:
                    acknowledged_ms = at_ms
            case EventKind.DIAGNOSED:
                made.append(Made(at_ms, Kind.DIAGNOSIS, f"diagnosis: {word}", "recorded", seat))
            case EventKind.HINTED:
                made.append(Made(at_ms, Kind.HINT, "hint", "costs 5 points", seat))
            case EventKind.BEGUN:
                made = [
                    _unfinished(one) for one in made
                ]  # one is under way at a time: of the one before no outcome came
                estimate = f"under way, estimated {line.data.get('estimate_s')} s"
                made.append(Made(at_ms, Kind.UNDER_WAY, str(line.data.get("move", "")), estimate, seat))
            case EventKind.FINISHED:
                finished_ms = at_ms
    return LiveState(
        moment_ms(lines[0]) if lines else now_ms,
        now_ms if finished_ms is None else finished_ms,
        seen_ms,
        tuple(periods),
        tuple(made),
        acknowledged_ms,
        finished_ms is not None,
        tuple(f"{name}, {access}" for name, access in seats_of(lines).items()),
    )


def moment_ms(line: Line) -> int:
    """When a line was written, ms since the epoch."""
    return round(datetime.fromisoformat(line.at).timestamp() * 1000)


def _unfinished(one: Made) -> Made:
    if one.kind is not Kind.UNDER_WAY:
        return one
    return replace(one, kind=Kind.FAILED, outcome="no outcome was recorded")


def _ended(period: Period, symptom: str, at_ms: int) -> Period:
    if period.until_ms is None and period.symptom == symptom:
        return Period(symptom, period.from_ms, at_ms)
    return period


def _kind(line: Line) -> EventKind:
    try:
        return EventKind(line.event)
    except ValueError:
        raise UsageError(
            "the journal of the incident cannot be used",
            f"line {line.seq + 1} is none of an incident",
            "Start another incident: drlib incident start --seed N",
        ) from None
