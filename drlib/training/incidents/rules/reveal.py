"""The story of an incident, told afterwards: causes, symptoms, moves, and what a good operator would have done.

Rules: pure, from the events of both journals and the facts that were measured. Every event is in it, in its order, in
words; nothing is added that did not happen. `due` is the replay: what to show when, at any speed. Not for: drawing
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from drlib.errors import UsageError
from drlib.training.incidents.rules.causes import Planted, in_turn
from drlib.training.incidents.rules.score import Event, Facts, Happened, Score, Worth, judge, worth


class Lane(StrEnum):
    """Where a moment stands in the picture."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    OPERATOR = "operator"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Moment:
    """`at_s`: seconds since the incident was started. `good`: None where there is nothing to judge."""

    at_s: float
    lane: Lane
    text: str
    good: bool | None = None


@dataclass(frozen=True, slots=True)
class Reveal:
    causes: tuple[Planted, ...]
    moments: tuple[Moment, ...]
    score: Score
    facts: Facts

    @property
    def title(self) -> str:
        return " and ".join(planted.kind.title for planted in self.causes) or "Nothing happened"

    @property
    def good(self) -> tuple[tuple[Planted, str], ...]:
        """What a good operator would have done about each cause, in a sentence or two."""
        return tuple((one, one.said(one.kind.good)) for one in in_turn(self.causes))

    @property
    def reference(self) -> tuple[str, ...]:
        """The same with its moves, each in a piece."""
        return tuple(f"{said} Moves: {', '.join(str(move) for move in one.repair)}." for one, said in self.good)


def tell(events: Sequence[Event], facts: Facts) -> Reveal:
    """`events`: of the whole incident, in their order."""
    causes = tuple(event.cause for event in events if event.what is Happened.CAUSE_IN and event.cause)
    moments = tuple(_moment(event, [c for e in events[:n] if (c := e.cause)]) for n, event in enumerate(events))
    return Reveal(causes, moments, judge(events, facts), facts)


def due(moments: Sequence[Moment], speed: float) -> tuple[tuple[float, Moment], ...]:
    """For each moment how many seconds after the replay's start it is shown. Raises `UsageError` for no speed."""
    if not speed > 0:
        raise UsageError(
            f"speed {speed:g}", "nothing would ever be shown", "Give a speed above 0: 10 is ten times faster."
        )
    begin = moments[0].at_s if moments else 0.0
    return tuple(((moment.at_s - begin) / speed, moment) for moment in moments)


def _moment(event: Event, planted: Sequence[Planted]) -> Moment:
    at = event.at_s
    match event.what:
        case Happened.STARTED:
            return Moment(at, Lane.OUTCOME, "all is well")
        case Happened.CAUSE_IN:
            assert event.cause is not None
            return Moment(at, Lane.CAUSE, event.cause.said(event.cause.kind.story))
        case Happened.SYMPTOM:
            return Moment(at, Lane.SYMPTOM, event.word)
        case Happened.ACTED:
            value = worth(event, planted)
            text = str(event.move) + (" failed" if event.failed else "")
            good = None if value is Worth.LOOKING else value is Worth.RIGHT
            return Moment(at, Lane.OPERATOR, text if good in (None, True) else f"{text} ({value.value})", good)
        case Happened.DIAGNOSED:
            right = any(event.word == one.cause for one in planted)
            return Moment(at, Lane.OPERATOR, f"diagnosis: {event.word}" + ("" if right else " (wrong)"), right)
        case Happened.HINTED:
            return Moment(at, Lane.OPERATOR, f"hint: {event.word}", False)
        case Happened.RECOVERED:
            return Moment(at, Lane.OUTCOME, "it is over", True)
        case Happened.RELAPSED:
            return Moment(at, Lane.OUTCOME, "it is back", False)
        case Happened.FINISHED:
            return Moment(at, Lane.OUTCOME, "finished")
