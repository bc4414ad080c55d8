"""The debriefing of a team: every action with who made it, the estimate, and the time it took. Pure.

Rules: built from the public journal, and from the reveal's rating. The time of an action is from its beginning to its answer;
what it brought about is seen in the symptom that was gone next, unless another action began before. A time that was not
recorded is None.
Not for: drawing (`pictures`).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from drlib.runs.journal import Line
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, MoveRating, rated_moves

DONE: Final = "done"
FAILED: Final = "failed"
UNRECORDED: Final = "no outcome recorded"


@dataclass(frozen=True, slots=True)
class Action:
    """`at_s`: seconds from the incident's start to the beginning. `gone`: the symptom that was gone next, `gone_s` seconds
    after the beginning. `outcome`: done, failed, or that none was recorded."""

    at_s: float
    seat: str
    move: str
    estimate_s: float | None
    took_s: float | None
    outcome: str
    gone: str = ""
    gone_s: float | None = None

    @property
    def over_s(self) -> float | None:
        """By how many seconds it took longer than estimated; negative if it was faster."""
        return None if self.estimate_s is None or self.took_s is None else self.took_s - self.estimate_s


@dataclass(frozen=True, slots=True)
class Estimates:
    """The actions of one seat that have both times. `ratio`: the median of time taken by time estimated; None without any."""

    seat: str
    actions: int
    within: int
    ratio: float | None


def actions_of(lines: Sequence[Line]) -> tuple[Action, ...]:
    """Every action that was begun, oldest first."""
    start = datetime.fromisoformat(lines[0].at)
    found = []
    for number, line in enumerate(lines):
        if line.event == EventKind.BEGUN:
            at_s = (datetime.fromisoformat(line.at) - start).total_seconds()
            found.append(_action(line, at_s, lines[number + 1 :]))
    return tuple(found)


def estimates_of(actions: Sequence[Action]) -> tuple[Estimates, ...]:
    """The estimates of each seat, in the order of first actions."""
    by_seat: dict[str, list[Action]] = {}
    for action in actions:
        by_seat.setdefault(action.seat, []).append(action)
    return tuple(_estimates(seat, mine) for seat, mine in by_seat.items())


def ratings_of(events: Sequence[IncidentEvent]) -> tuple[MoveRating, ...]:
    """How each action that has an outcome is rated, oldest first; `events` are all of the incident, in order."""
    return tuple(
        rating
        for event, rating in rated_moves(events)
        if event.by and event.move is not None and event.move.definition.changes_state
    )


def with_ratings(actions: Sequence[Action], ratings: Sequence[MoveRating]) -> tuple[tuple[Action, str], ...]:
    """Each action with its rating, which one without an outcome does not have; `ratings` as of `ratings_of`."""
    rated = iter(ratings)
    return tuple(
        (action, "" if action.outcome == UNRECORDED else next(rated, MoveRating.NEUTRAL).value) for action in actions
    )


def _action(begun: Line, at_s: float, after: Sequence[Line]) -> Action:
    """One action, of which `after` are the lines behind its beginning, up to the next one's."""
    seat, estimate_s = str(begun.data.get("seat", "")), _seconds(begun, "estimate_s")
    outcome, took_s = UNRECORDED, None
    gone, gone_s = "", None
    for line in after:
        if line.event == EventKind.BEGUN:
            break
        if line.event == EventKind.ACTED and _ends(line, begun):
            outcome, took_s = FAILED if line.data.get("failed") else DONE, _between(begun, line)
        if line.event == EventKind.SYMPTOM_GONE and gone_s is None:
            gone, gone_s = str(line.data.get("word", "")), _between(begun, line)
    return Action(at_s, seat, str(begun.data.get("move", "")), estimate_s, took_s, outcome, gone, gone_s)


def _ends(line: Line, begun: Line) -> bool:
    return all(line.data.get(name) == begun.data.get(name) for name in ("seat", "move"))


def _between(begun: Line, line: Line) -> float:
    return (datetime.fromisoformat(line.at) - datetime.fromisoformat(begun.at)).total_seconds()


def _seconds(line: Line, name: str) -> float | None:
    value = line.data.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _estimates(seat: str, actions: Sequence[Action]) -> Estimates:
    timed = [(a.estimate_s, a.took_s) for a in actions if a.estimate_s and a.took_s is not None]
    ratio = statistics.median(took_s / estimate_s for estimate_s, took_s in timed) if timed else None
    return Estimates(seat, len(timed), sum(took_s <= estimate_s for estimate_s, took_s in timed), ratio)
