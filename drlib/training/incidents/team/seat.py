"""One seat at an incident, held by this process: joined, what it does, and left.

Rules: a seat is held by one process, by a lock in the incident's folder that ends with the process. One move that changes the
clusters is under way at a time, by another lock; its estimate is in the journal before it begins. What a seat may do is read
from the journal each time, so that a role that the trainer changes counts at once. Each refusal says why, and what to do.
Not for: the rules (`seats`), what moves do (`drlib.training.incidents.incident`).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from drlib.errors import LeaseHeld, UsageError
from drlib.runs.lock import alone
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.team.seats import (
    Access,
    Right,
    require_access,
    require_admission,
    require_estimate,
    require_join,
    require_right,
    seats_of,
    under_way,
)

_JOINING: Final = ".seats.lock"
_TURN: Final = ".turn.lock"


class TeamSeat:
    """The seat `name` at `incident`. A finished incident is only looked at: nothing is recorded and no lock is taken."""

    def __init__(self, incident: Incident, name: str, role: str) -> None:
        """Join, or continue after a restart. Raises `UsageError` for a name or a role that this seat may not have."""
        self.incident, self.name = incident, name
        self._held = ExitStack()
        access = require_access(role)
        if incident.record.finished():
            return
        with alone(incident.folder, _JOINING, "another seat is joining", "Try again.", patience_s=20.0):
            seats = seats_of(incident.record.lines())
            require_join(seats, name, access)
            self._hold()
            if name not in seats:
                incident.record.write(EventKind.SEATED, seat=name, access=access.value)

    @property
    def access(self) -> Access:
        """What it may do now; of one that only looks at a finished incident, read-only."""
        return seats_of(self.incident.record.lines()).get(self.name, Access.READ_ONLY)

    def require(self, right: Right) -> None:
        """Raises `UsageError` when this seat may not do that now."""
        require_right(seats_of(self.incident.record.lines()), self.name, right)

    def act(self, *words: str, estimate_s: float | None = None) -> str:
        """Make one move and return its outcome. Raises `UsageError`, and what the move raises."""
        move = parse_move(words)
        self.incident.refuse_finished()
        self.require(Right.ACT)
        estimated_s = require_estimate(move, estimate_s)
        if estimated_s is None:
            return self.incident.act(str(move), seat=self.name)
        with self.turn(f"{move} was not made"):
            self.incident.refuse_finished()
            self.incident.record.write(EventKind.BEGUN, seat=self.name, move=str(move), estimate_s=estimated_s)
            return self.incident.act(str(move), seat=self.name)

    def admit(self, name: str, role: str) -> Access:
        """Give the seat `name` another role, or one before it joins. Raises `UsageError`."""
        self.require(Right.MASTER)
        access = require_access(role)
        with alone(self.incident.folder, _JOINING, "another seat is joining", "Try again.", patience_s=20.0):
            require_admission(seats_of(self.incident.record.lines()), name, access)
            self.incident.record.write(EventKind.SEATED, seat=name, access=access.value, by=self.name)
        return access

    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """While inside, no other seat changes the clusters. Raises `UsageError` with `what` while one does."""
        with ExitStack() as stack:
            try:
                stack.enter_context(alone(self.incident.folder, _TURN, "a move is under way", "Try again."))
            except LeaseHeld:
                raise self._waits(what) from None
            yield

    def leave(self) -> None:
        """Let another process take this seat. The incident continues. Safe to repeat."""
        self._held.close()

    def _waits(self, what: str) -> UsageError:
        begun = under_way(self.incident.record.lines())
        why = (
            "another seat makes a move"
            if begun is None
            else f"{begun.seat} makes {begun.move} since {begun.at[11:19]} UTC"
        )
        return UsageError(what, why, "Wait for its outcome in the live view, then decide again.")

    def _hold(self) -> None:
        try:
            self._held.enter_context(
                alone(self.incident.folder, f".seat-{self.name}.lock", "it is taken", "Try again.")
            )
        except LeaseHeld:
            raise UsageError(
                f"seat {self.name} is taken",
                "another notebook that runs holds it, or a command in a terminal",
                "Join with another name, or shut down that notebook's kernel first.",
            ) from None
