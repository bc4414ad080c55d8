"""Seats of a team at one incident: who has joined, what each may do, and which move is under way. Pure.

Rules: all of it is read from the public journal, so that each process that opened the folder decides alike. A seat's access is
what the trainer gave it last, else what it joined with. Once a seat has joined, everything that counts is done from a seat.
A move that changes the clusters needs an estimate, a whole number of seconds that is written down before the move begins.
Not for: holding a seat (`seat`); keeping a reader of the folder from anything, which files cannot.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.errors import UsageError
from drlib.runs.journal import Line
from drlib.training.incidents.rules.moves import Move
from drlib.training.incidents.rules.score import EventKind

MOST_ESTIMATE_S: Final = 3600
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,29}")


class Access(StrEnum):
    TRAINER = "trainer"
    ACTING = "acting"
    READ_ONLY = "read-only"


class Right(StrEnum):
    """Things that count in a game, as an error names them."""

    ACT = "make moves, diagnose and take hints"
    MASTER = "see and inject causes, and admit seats"
    FINISH = "finish the incident"


RIGHTS: Final[Mapping[Access, frozenset[Right]]] = {
    Access.TRAINER: frozenset({Right.MASTER, Right.FINISH}),
    Access.ACTING: frozenset({Right.ACT}),
    Access.READ_ONLY: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Begun:
    """A move that has begun and whose outcome is not in the journal."""

    seat: str
    move: str
    at: str  # UTC, ISO 8601


def require_name(name: str) -> None:
    """Raises `UsageError` for a name that no seat may have: it is part of a file's name, and of what players read."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"seat {name!r}",
            "a seat's name has 1 to 30 letters, digits, spaces, dots, dashes or underscores, and begins with a letter or digit",
            "Choose another name.",
        )


def require_access(access: str) -> Access:
    """The access of that name. Raises `UsageError` for another."""
    if access not in {each.value for each in Access}:
        raise UsageError(f"role {access}", "there is no role of that name", f"Use one of {', '.join(Access)}.")
    return Access(access)


def seats_of(lines: Sequence[Line]) -> dict[str, Access]:
    """Each seat that has joined or was admitted, with its access now, in the order of joining."""
    seats: dict[str, Access] = {}
    for line in lines:
        if line.event == EventKind.SEATED:
            seats[str(line.data.get("seat", ""))] = require_access(str(line.data.get("access", "")))
    return seats


def under_way(lines: Sequence[Line]) -> Begun | None:
    """The last move, if it has begun and has no outcome."""
    begun: Begun | None = None
    for line in lines:
        if line.event == EventKind.BEGUN:
            begun = Begun(str(line.data.get("seat", "")), str(line.data.get("move", "")), line.at)
        elif line.event == EventKind.ACTED and begun is not None and line.data.get("seat") == begun.seat:
            begun = None
    return begun


def require_join(seats: Mapping[str, Access], name: str, access: Access) -> None:
    """Raises `UsageError` where `name` may not join with `access`."""
    require_name(name)
    for other, held in seats.items():
        if other != name and other.lower() == name.lower():
            raise UsageError(f"seat {name}", f"a seat is called {other}", "Use exactly that name, or another one.")
        if other != name and held is access is Access.TRAINER:
            raise UsageError(f"seat {name}", f"{other} is this incident's trainer, and there is one", "Join as acting.")
    now = seats.get(name)
    if now is not None and now is not access:
        raise UsageError(
            f"seat {name} as {access}",
            f"its role in this incident is {now}",
            f'Join with role="{now}"; the trainer can change it: admit("{name}", "{access}")',
        )


def require_admission(seats: Mapping[str, Access], name: str, access: Access) -> None:
    """Raises `UsageError` where the trainer may not give `name` that access."""
    require_name(name)
    if access is Access.TRAINER or seats.get(name) is Access.TRAINER:
        raise UsageError(f"seat {name}", "there is one trainer", f"Give acting or {Access.READ_ONLY} to another seat.")


def require_right(seats: Mapping[str, Access], name: str, right: Right) -> None:
    """Raises `UsageError` where the seat `name` ("" without one) may not do that. Without seats everything is allowed."""
    if not seats:
        return
    holders = ", ".join(seat for seat, access in seats.items() if right in RIGHTS[access]) or "none yet"
    if not name:
        raise UsageError(
            "nothing was done",
            "this incident is played by a team, and what counts is done from a seat",
            'Take one: drlib.open_incident(run_dir, seat="NAME", role="acting"), or "read-only", or "trainer"; in a terminal '
            "--seat NAME, where the command has it.",
        )
    access = seats.get(name, Access.READ_ONLY)
    if right not in RIGHTS[access]:
        raise UsageError(
            f"seat {name} may not do that",
            f"its role is {access}; those who {right.value}: {holders}",
            f'Ask one of them, or ask the trainer for another role: admit("{name}", "acting")',
        )


def require_estimate(move: Move, estimate_s: float | None) -> int | None:
    """The estimate of `move` in seconds. Raises `UsageError` where it needs one and has none, or an impossible one."""
    if estimate_s is None:
        if not move.definition.changes_state:
            return None
        raise UsageError(
            f"{move} was not made",
            "in a team each action is estimated before it begins",
            f'Say how many seconds it takes: act("{move}", estimate_s=30), or in a terminal: --estimate 30',
        )
    if not 1 <= estimate_s <= MOST_ESTIMATE_S:
        raise UsageError(
            f"an estimate of {estimate_s:g} seconds",
            f"it is to be between 1 and {MOST_ESTIMATE_S}",
            f'Write: act("{move}", estimate_s=30), or in a terminal: --estimate 30',
        )
    return round(estimate_s)
