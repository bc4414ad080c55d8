"""The reveal of a finished incident: causes, symptoms, moves, and what a good operator would have done.

Rules: pure; built from the events of both journals and the final measurements. It contains every event in order and nothing
else. `replay_schedule` says when to show each entry of a replay, at any speed.
Not for: drawing (`drlib.training.incidents.pictures`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.errors import UsageError
from drlib.training.incidents.rules.causes import InjectedCause, by_urgency
from drlib.training.incidents.rules.score import (
    EventKind,
    IncidentEvent,
    Measurements,
    MoveRating,
    Score,
    rate_move,
    score_incident,
)

GONE: Final = "gone: "  # before the symptom


class Track(StrEnum):
    """The row of the timeline in which an entry is drawn, as people read it."""

    CAUSE = "fault"
    SYMPTOM = "symptom"
    MOVE = "move"
    OUTCOME = "state"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """`at_s`: seconds since the incident was started. `correct`: None for an entry that is not judged. `hint`: it was taken,
    which costs points and is neither right nor wrong."""

    at_s: float
    track: Track
    text: str
    correct: bool | None = None
    hint: bool = False

    @property
    def state(self) -> str:
        """ "right", "wrong", "hint", or nothing for what is not judged."""
        return "hint" if self.hint else "" if self.correct is None else "right" if self.correct else "wrong"


@dataclass(frozen=True, slots=True)
class Reveal:
    """What a finished incident was."""

    causes: tuple[InjectedCause, ...]
    entries: tuple[TimelineEntry, ...]
    score: Score
    measurements: Measurements

    @property
    def title(self) -> str:
        return " and ".join(cause.definition.title for cause in self.causes) or "No fault was injected"

    @property
    def advice(self) -> tuple[tuple[InjectedCause, str], ...]:
        """What a good operator would have done about each cause, most urgent first."""
        return tuple((cause, cause.render(cause.definition.good)) for cause in by_urgency(self.causes))

    @property
    def reference(self) -> tuple[str, ...]:
        """The advice with its moves, one text for each cause."""
        return tuple(f"{text} Moves: {', '.join(str(move) for move in cause.repair)}." for cause, text in self.advice)


def build_reveal(events: Sequence[IncidentEvent], measurements: Measurements) -> Reveal:
    """Build the reveal from all events of an incident, in order."""
    causes = tuple(event.cause for event in events if event.kind is EventKind.CAUSE_IN and event.cause)
    entries = tuple(
        _entry(event, [earlier.cause for earlier in events[:n] if earlier.cause]) for n, event in enumerate(events)
    )
    return Reveal(causes, entries, score_incident(events, measurements), measurements)


def replay_schedule(entries: Sequence[TimelineEntry], speed: float) -> tuple[tuple[float, TimelineEntry], ...]:
    """Return each entry with the seconds after the start of the replay at which to show it.

    Raises `UsageError` for a speed that is not positive.
    """
    if not speed > 0:
        raise UsageError(f"speed {speed:g}", "nothing would be shown", "Use a speed above 0: 10 is ten times faster.")
    return tuple(((entry.at_s - entries[0].at_s) / speed, entry) for entry in entries)


def _entry(event: IncidentEvent, injected: Sequence[InjectedCause]) -> TimelineEntry:
    at, who = event.at_s, f"{event.by}: " if event.by else ""
    match event.kind:
        case EventKind.STARTED:
            return TimelineEntry(at, Track.OUTCOME, "everything works")
        case EventKind.CAUSE_IN:
            assert event.cause is not None
            return TimelineEntry(at, Track.CAUSE, event.cause.render(event.cause.definition.story))
        case EventKind.SYMPTOM:
            return TimelineEntry(at, Track.SYMPTOM, event.detail)
        case EventKind.SYMPTOM_GONE:
            return TimelineEntry(at, Track.SYMPTOM, f"{GONE}{event.detail}")
        case EventKind.ACTED:
            rating = rate_move(event, injected)
            text = f"{who}{event.move}" + (" failed" if event.failed else "")
            correct = None if rating is MoveRating.NEUTRAL else rating is MoveRating.RIGHT
            suffix = f" ({rating.value})" if correct is False else ""
            return TimelineEntry(at, Track.MOVE, text + suffix, correct)
        case EventKind.DIAGNOSED:
            right = any(event.detail == cause.cause for cause in injected)
            return TimelineEntry(
                at, Track.MOVE, f"{who}diagnosis: {event.detail}" + ("" if right else " (wrong)"), right
            )
        case EventKind.HINTED:
            return TimelineEntry(at, Track.MOVE, f"{who}hint: {event.detail}", hint=True)
        case EventKind.SEATED:
            return TimelineEntry(at, Track.OUTCOME, f"{event.by} is {event.detail}")
        case EventKind.BEGUN:
            return TimelineEntry(at, Track.MOVE, f"{who}{event.detail} begins")
        case EventKind.RECOVERED:
            return TimelineEntry(at, Track.OUTCOME, "recovered", True)
        case EventKind.RELAPSED:
            return TimelineEntry(at, Track.OUTCOME, "no longer recovered", False)
        case EventKind.FINISHED:
            return TimelineEntry(at, Track.OUTCOME, "finished")
