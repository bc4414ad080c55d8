"""The score of an incident, from its events and its final measurements alone.

Rules: pure; the same input gives the same score, for any player. 100 points: detection 15, diagnosis 25, recovery 35, data
25 (10 of them for records read again). All points within the cause's time limit, none from four times the limit on, linear
in between. Deductions: 5 for a wrong move, a wrong diagnosis or a false alarm, 20 for a harmful move, 5 for a hint; the sum
is never below 0. A measurement that is missing earns nothing, and data earns points only after recovery. With two causes
each diagnosis is worth half; the limits are those of the slower cause; recovery means recovery from both.
Not for: measuring (`drlib.training.incidents.lab.measure`), nor for the reveal (`reveal`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import ACKNOWLEDGE, Move

DETECT: Final = 15.0
DIAGNOSE: Final = 25.0
RECOVER: Final = 35.0
LOST: Final = 15.0
READ_AGAIN: Final = 10.0
WRONG: Final = 5.0
HARMFUL: Final = 20.0
HINT: Final = 5.0
FULL: Final = 100.0
_ZERO_AT: Final = 4.0  # multiple of the time limit from which on there are no points
_NOT_RECOVERED: Final = "the incident had not recovered"


class EventKind(StrEnum):
    """Names of the events in an incident's journals."""

    STARTED = "started"
    CAUSE_IN = "cause-in"
    ACTED = "acted"
    DIAGNOSED = "diagnosed"
    HINTED = "hinted"
    SYMPTOM = "symptom"
    SYMPTOM_GONE = "symptom-gone"
    SEATED = "seated"
    BEGUN = "begun"
    RECOVERED = "recovered"
    RELAPSED = "relapsed"
    FINISHED = "finished"


class MoveRating(StrEnum):
    """How a move is rated in an incident. NEUTRAL: it changes nothing and costs nothing."""

    NEUTRAL = "neutral"
    RIGHT = "right"
    WRONG = "wrong"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """`at_s`: seconds since the incident was started. `cause`: of CAUSE_IN. `move`: of ACTED. `detail`: the diagnosed cause,
    the symptom, the hint, the role of SEATED or the move of BEGUN. `failed`: the move could not be carried out. `by`: the
    seat, in a team."""

    at_s: float
    kind: EventKind
    cause: InjectedCause | None = None
    move: Move | None = None
    detail: str = ""
    failed: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured when the incident was finished; None if it could not be. `lost`: acknowledged records that are in neither
    the mirror topic nor the standby topic on RIGHT. `read_again`: records that groups processed more than once."""

    recovered: bool | None
    lost: int | None
    read_again: int | None
    doubled: int | None = None


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One line of the score. `of`: the points it could have earned, 0 for a deduction."""

    name: str
    points: float
    of: float
    why: str


@dataclass(frozen=True, slots=True)
class Score:
    """Times are seconds from the first cause, of `recover_s` from the last; None if it never happened."""

    parts: tuple[ScorePart, ...]
    detect_s: float | None
    diagnose_s: float | None
    recover_s: float | None
    wrong: int
    harmful: int
    hints: int

    @property
    def points(self) -> float:
        return max(0.0, round(sum(part.points for part in self.parts), 1))

    @property
    def full(self) -> bool:
        return self.points == FULL


def rate_move(event: IncidentEvent, causes: Sequence[InjectedCause]) -> MoveRating:
    """Rate the move of `event`, made while `causes` were injected. Without a cause every move that changes state is wrong."""
    assert event.move is not None
    move = event.move
    if not move.definition.changes_state:
        return MoveRating.NEUTRAL if causes or move.name != ACKNOWLEDGE else MoveRating.WRONG
    if any(move.does_as(right) for cause in causes for right in cause.repair):
        return MoveRating.WRONG if event.failed else MoveRating.RIGHT
    if move.definition.harmful or any(move.name in cause.definition.harmful for cause in causes):
        return MoveRating.HARMFUL
    return MoveRating.WRONG


def rated_moves(events: Iterable[IncidentEvent]) -> Iterator[tuple[IncidentEvent, MoveRating]]:
    """Every move of `events`, all of an incident in order, rated by the causes that were injected before it."""
    injected: list[InjectedCause] = []
    for event in events:
        if event.cause is not None:
            injected.append(event.cause)
        if event.kind is EventKind.ACTED:
            yield event, rate_move(event, injected)


def score_incident(events: Sequence[IncidentEvent], measurements: Measurements) -> Score:
    """Score one incident; `events` in the order in which they happened."""
    injected = [(event.at_s, event.cause) for event in events if event.kind is EventKind.CAUSE_IN and event.cause]
    causes = tuple(cause for _, cause in injected)
    first_s = injected[0][0] if injected else 0.0
    last_s = injected[-1][0] if injected else 0.0
    after = [event for event in events if injected and event.at_s >= first_s]
    names = {cause.cause for cause in causes}
    detected = _first(event.at_s for event in after if acknowledges(event) or _diagnosis(event) in names)
    diagnosed = {
        cause.cause: _first(event.at_s for event in after if _diagnosis(event) == cause.cause) for cause in causes
    }
    recovered = _recovered_at(events, measurements)
    limits = [cause.definition for cause in causes]
    over = recovered is not None

    parts = [_timed("detection", DETECT, detected, first_s, max((limit.detect_s for limit in limits), default=0.0))]
    for limit in {limit.name: limit for limit in limits}.values():
        name = f"diagnosis: {limit.title}" if len(diagnosed) > 1 else "diagnosis"
        parts.append(_timed(name, DIAGNOSE / len(diagnosed), diagnosed[limit.name], first_s, limit.diagnose_s))
    parts.append(
        _timed("recovery", RECOVER, recovered, last_s, max((limit.recover_s for limit in limits), default=0.0))
    )
    parts.append(_counted("records lost", LOST, measurements.lost, over))
    if all(limit.spares_positions for limit in limits):
        parts.append(_counted("records read again", READ_AGAIN, measurements.read_again, over))
    else:
        parts.append(_not_counted("records read again", READ_AGAIN, measurements.read_again, over))

    ratings = [rating for _, rating in rated_moves(events)]
    wrong_diagnoses = {event.detail for event in events if event.kind is EventKind.DIAGNOSED} - names
    wrong = ratings.count(MoveRating.WRONG) + len(wrong_diagnoses)
    harmful = ratings.count(MoveRating.HARMFUL)
    hints = sum(event.kind is EventKind.HINTED for event in events)
    parts += _deduction("wrong moves, diagnoses and alarms", wrong, WRONG)
    parts += _deduction("harmful moves", harmful, HARMFUL)
    parts += _deduction("hints", hints, HINT)

    times = [at_s for at_s in diagnosed.values() if at_s is not None]
    return Score(
        tuple(parts),
        _seconds(detected, first_s),
        _seconds(max(times), first_s) if times and len(times) == len(diagnosed) else None,
        _seconds(recovered, last_s),
        wrong,
        harmful,
        hints,
    )


def recovered_since(events: Iterable[IncidentEvent]) -> float | None:
    """Since when the incident has recovered, in seconds from its start; None if it has not, or no longer."""
    recovered_s: float | None = None
    for event in events:
        if event.kind is EventKind.RECOVERED and recovered_s is None:
            recovered_s = event.at_s
        elif event.kind in (EventKind.RELAPSED, EventKind.CAUSE_IN):
            recovered_s = None
    return recovered_s


def quiet_since(events: Iterable[IncidentEvent]) -> float | None:
    """Since when there is no symptom any more, in seconds from the start; None while there is one, and before the first."""
    present: set[str] = set()
    quiet_s: float | None = None
    for event in events:
        if event.kind is EventKind.SYMPTOM:
            present.add(event.detail)
            quiet_s = None
        elif event.kind is EventKind.SYMPTOM_GONE:
            present.discard(event.detail)
            quiet_s = quiet_s if present else event.at_s
    return quiet_s


def acknowledges(event: IncidentEvent) -> bool:
    """Whether the player reports by it that something is wrong."""
    return event.move is not None and event.move.name == ACKNOWLEDGE


def _diagnosis(event: IncidentEvent) -> str | None:
    return event.detail if event.kind is EventKind.DIAGNOSED else None


def _recovered_at(events: Sequence[IncidentEvent], measurements: Measurements) -> float | None:
    """When the incident recovered for good: the start of the last recovered period that lasted to the end."""
    if not measurements.recovered:
        return None
    if (recovered_s := recovered_since(events)) is not None:
        return recovered_s
    return _first(event.at_s for event in events if event.kind is EventKind.FINISHED)


def _first(times: Iterable[float]) -> float | None:
    return next(iter(times), None)


def _seconds(at_s: float | None, start_s: float) -> float | None:
    return None if at_s is None else round(max(0.0, at_s - start_s), 3)


def _timed(name: str, of: float, at_s: float | None, start_s: float, limit_s: float) -> ScorePart:
    if at_s is None or limit_s <= 0:
        return ScorePart(name, 0.0, of, "never")
    took_s = max(0.0, at_s - start_s)
    share = min(1.0, max(0.0, 1 - (took_s - limit_s) / (limit_s * (_ZERO_AT - 1))))
    return ScorePart(name, round(of * share, 2), of, f"after {took_s:.0f} s; all points up to {limit_s:.0f} s")


def _counted(name: str, of: float, count: int | None, over: bool) -> ScorePart:
    if not over:
        return ScorePart(name, 0.0, of, _NOT_RECOVERED)
    if count is None:
        return ScorePart(name, 0.0, of, "the number is unknown")
    return ScorePart(name, 0.0 if count else of, of, f"{count:,}" if count else "none")


def _not_counted(name: str, of: float, count: int | None, over: bool) -> ScorePart:
    """A number that the cause itself explains, so that it costs nothing."""
    why = "the number is unknown" if count is None else f"{count:,}, because of the cause itself"
    return ScorePart(name, of if over else 0.0, of, why if over else _NOT_RECOVERED)


def _deduction(name: str, count: int, each: float) -> list[ScorePart]:
    return [ScorePart(name, -each * count, 0.0, f"{count} at {each:g} points")] if count else []
