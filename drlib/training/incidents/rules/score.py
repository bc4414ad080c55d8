"""The score of an incident, from what happened and what was measured: nothing else is looked at.

Rules: pure; the same events and facts are the same score, whoever played. Out of 100: detection 15, diagnosis 25,
recovery 35, data 25 (10 of them for records read again). Full points within the cause's time, none at four times
that, a straight line in between. Deductions: 5 for a wrong move, a wrong diagnosis or a false alarm, 20 for a harmful
move, 5 for a hint; never below 0. What could not be measured earns nothing, and data earns only once the incident is
over: what still burns is not safe. With two causes the diagnosis is worth half each, times are those of the slower
one, and recovery is of both. Not for: measuring (`drlib.training.incidents.lab.measure`), nor for telling a story
(`incident_reveal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.training.incidents.rules.causes import Planted
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
_NOTHING_AT: Final = 4.0  # times the cause's time


class Happened(StrEnum):
    """Names of events of an incident's journal."""

    STARTED = "started"
    CAUSE_IN = "cause-in"
    ACTED = "acted"
    DIAGNOSED = "diagnosed"
    HINTED = "hinted"
    SYMPTOM = "symptom"
    RECOVERED = "recovered"
    RELAPSED = "relapsed"
    FINISHED = "finished"


class Worth(StrEnum):
    """What a move was worth in this incident."""

    LOOKING = "looking"
    RIGHT = "right"
    WRONG = "wrong"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True)
class Event:
    """`at_s`: seconds since the incident was started. `cause`: of CAUSE_IN; `move`: of ACTED; `word`: a diagnosis.
    `failed`: the move could not be carried out."""

    at_s: float
    what: Happened
    cause: Planted | None = None
    move: Move | None = None
    word: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What was measured when it was finished. None: it could not be. `lost`: acknowledged records that are on neither
    of RIGHT's topics; `read_again`: by groups."""

    recovered: bool | None
    lost: int | None
    read_again: int | None
    doubled: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the score. `of`: what it could have earned, 0 for a deduction."""

    name: str
    points: float
    of: float
    why: str


@dataclass(frozen=True, slots=True)
class Score:
    parts: tuple[Part, ...]
    detect_s: float | None  # seconds from the first cause; None: it never was
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


def worth(event: Event, causes: Sequence[Planted]) -> Worth:
    """What one move was worth while `causes` were in. Before any cause is in, every move that changes something is
    wrong."""
    assert event.move is not None
    move = event.move
    if not move.kind.changes:
        return Worth.LOOKING if causes or move.name != ACKNOWLEDGE else Worth.WRONG
    if any(move in planted.repair for planted in causes):
        return Worth.WRONG if event.failed else Worth.RIGHT
    if move.kind.harmful or any(move.name in planted.kind.harmful for planted in causes):
        return Worth.HARMFUL
    return Worth.WRONG


def judge(events: Sequence[Event], facts: Facts) -> Score:
    """The score of one incident; `events` in the order they happened."""
    planted = [(event.at_s, event.cause) for event in events if event.what is Happened.CAUSE_IN and event.cause]
    causes = tuple(cause for _, cause in planted)
    begin = planted[0][0] if planted else 0.0
    last_in = planted[-1][0] if planted else 0.0
    worths = [
        worth(event, [cause for at, cause in planted if at <= event.at_s])
        for event in events
        if event.what is Happened.ACTED
    ]
    hints = sum(event.what is Happened.HINTED for event in events)
    detected = _first(
        event.at_s
        for event in events
        if event.at_s >= begin
        and planted
        and (_named(event, causes) or (event.move is not None and event.move.name == ACKNOWLEDGE))
    )
    named = {
        cause.cause: _first(e.at_s for e in events if e.at_s >= begin and _names(e, cause.cause)) for cause in causes
    }
    false = {e.word for e in events if e.what is Happened.DIAGNOSED} - set(named)
    recovered = _recovered(events, facts)
    wrong = worths.count(Worth.WRONG) + len(false)
    harmful = worths.count(Worth.HARMFUL)

    limits = [cause.kind for cause in causes]
    parts = [_timed("detection", DETECT, detected, begin, max((k.detect_s for k in limits), default=0.0))]
    share = DIAGNOSE / max(1, len(named))
    for cause in dict.fromkeys(c.cause for c in causes):
        kind = next(k for k in limits if k.name == cause)
        name = f"diagnosis: {kind.title}" if len(named) > 1 else "diagnosis"
        parts.append(_timed(name, share, named[cause], begin, kind.diagnose_s))
    since = max(begin, last_in)
    parts.append(_timed("recovery", RECOVER, recovered, since, max((k.recover_s for k in limits), default=0.0)))
    over = recovered is not None
    parts.append(_counted("records lost", LOST, facts.lost, over))
    if all(kind.spares_positions for kind in limits):
        parts.append(_counted("records read again", READ_AGAIN, facts.read_again, over))
    else:
        again = "how many is not known" if facts.read_again is None else f"{facts.read_again:,}, the cause's own doing"
        parts.append(Part("records read again", READ_AGAIN if over else 0.0, READ_AGAIN, again if over else _NOT_OVER))
    if wrong:
        parts.append(Part("wrong moves, diagnoses and alarms", -WRONG * wrong, 0.0, f"{wrong} at {WRONG:g} points"))
    if harmful:
        parts.append(Part("harmful moves", -HARMFUL * harmful, 0.0, f"{harmful} at {HARMFUL:g} points"))
    if hints:
        parts.append(Part("hints", -HINT * hints, 0.0, f"{hints} at {HINT:g} points"))
    diagnosed = [at for at in named.values() if at is not None]
    return Score(
        tuple(parts),
        _since(detected, begin),
        _since(max(diagnosed), begin) if diagnosed and len(diagnosed) == len(named) else None,
        _since(recovered, since),
        wrong,
        harmful,
        hints,
    )


_NOT_OVER: Final = "the incident was not over"


def _recovered(events: Sequence[Event], facts: Facts) -> float | None:
    """When it was over for good: the first moment of the last stretch that lasted to the end."""
    if not facts.recovered:
        return None
    at: float | None = None
    for event in events:
        if event.what is Happened.RECOVERED and at is None:
            at = event.at_s
        elif event.what in (Happened.RELAPSED, Happened.CAUSE_IN):
            at = None
    return at if at is not None else _first(e.at_s for e in events if e.what is Happened.FINISHED)


def _named(event: Event, causes: Sequence[Planted]) -> bool:
    return any(_names(event, cause.cause) for cause in causes)


def _names(event: Event, cause: str) -> bool:
    return event.what is Happened.DIAGNOSED and event.word == cause


def _first(times: Iterable[float]) -> float | None:
    return next(iter(times), None)


def _since(at: float | None, begin: float) -> float | None:
    return None if at is None else round(max(0.0, at - begin), 3)


def _timed(name: str, of: float, at: float | None, begin: float, limit: float) -> Part:
    if at is None or limit <= 0:
        return Part(name, 0.0, of, "never")
    took = max(0.0, at - begin)
    share = 1.0 if took <= limit else max(0.0, 1 - (took - limit) / (limit * (_NOTHING_AT - 1)))
    return Part(name, round(of * share, 2), of, f"after {took:.0f} s; full points up to {limit:.0f} s")


def _counted(name: str, of: float, count: int | None, over: bool) -> Part:
    if not over:
        return Part(name, 0.0, of, _NOT_OVER)
    if count is None:
        return Part(name, 0.0, of, "how many is not known")
    return Part(name, 0.0 if count else of, of, f"{count:,}" if count else "none")
