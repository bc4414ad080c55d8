"""An incident as its player and its game master use it, in a notebook and on the command line: each call returns a table.

Rules: it decides nothing. Running a cell again does no harm: a finished incident is shown again. The game master's calls
work from any process that opened the same folder.
Not for: what the calls do (`incident`), their tables and figures (`pictures`).
"""

from __future__ import annotations

import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drlib.closing import Closing
from drlib.errors import UsageError
from drlib.outgoing.terminal import show
from drlib.runs import folder as folders
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Records, Rpo, RtoSeconds, Scorecard
from drlib.runs.table import Table, verdict_table
from drlib.training.incidents import pictures
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.live.form import DIAGNOSE, HINT
from drlib.training.incidents.live.replay import ReplayShown
from drlib.training.incidents.reference_player import solve
from drlib.training.incidents.rules.reveal import Reveal, build_reveal, replay_schedule
from drlib.training.incidents.rules.score import HINT as HINT_COST
from drlib.training.incidents.rules.score import Measurements
from drlib.training.incidents.status import from_here, status_shown
from drlib.training.incidents.team.debriefing import actions_of, estimates_of, ratings_of
from drlib.training.incidents.team.page import PAGE, Played, write_debriefing
from drlib.training.incidents.team.pictures import debriefing_shown, seats_shown
from drlib.training.incidents.team.seat import TeamSeat
from drlib.training.incidents.team.seats import Access, Right, require_right, seats_of

if TYPE_CHECKING:
    from drlib.training.incidents.live.view import LiveView

PLAYERS: Final = ("you", "reference")
RECORDED: Final = "Recorded; whether it is right shows at the end. Next: repair it, with a move of drlib incident list."


class IncidentSession(Closing):
    """A started `incident`, opened for `player`. A context manager; `close` ends the incident's processes."""

    def __init__(self, incident: Incident, player: str = "you", seat: TeamSeat | None = None) -> None:
        require_player(player)
        self.incident = incident
        self._player = player
        self.seat = seat
        self._view: LiveView | None = None

    @property
    def run_dir(self) -> str:
        """The incident's folder; another notebook opens the same incident by it."""
        return str(self.incident.folder)

    # -- for the player ------------------------------------------------------------------------------------------------

    def moves(self) -> Table:
        """Show every move and every possible diagnosis."""
        return pictures.catalogue_shown(
            f"To open this incident in another notebook, or after a restart: {self.run_dir}"
        )

    def status(self) -> Table:
        """Show the symptoms, and the state of topics, groups and applications."""
        if self.incident.record.finished():
            return self.score()
        observation, symptoms = self.incident.status()
        return status_shown(
            observation, symptoms, self.incident.calm(), from_here(self.incident.properties, Path.cwd())
        )

    def act(self, *words: str, estimate_s: float | None = None) -> Table:
        """Make one move: `act("restart-broker LEFT")`. Raises what the move raises.

        `estimate_s`: in a team, how many seconds it is going to take; needed for moves that change something.
        """
        return Table(" ".join(words), [], note=self._act(*words, estimate_s=estimate_s))

    def diagnose(self, cause: str) -> Table:
        """Record a diagnosis."""
        self.require(Right.ACT)
        self.incident.diagnose(cause, seat=self._name)
        return Table(f"Diagnosis: {cause}", [], note=RECORDED)

    def hint(self, *, take: bool = False) -> Table:
        """Show what the next hint costs, and with `take` the hint."""
        self.require(Right.ACT)
        if take:
            return Table("Hint", [], note=self.incident.hint(seat=self._name))
        self.incident.refuse_finished()
        # whether there is one is not said: that would be a free answer to the question whether a fault was injected
        price = f"A hint costs {HINT_COST:g} of 100 points; nothing was charged yet."
        return Table("Hint", [], note=f"{price} To read it: incident.hint(take=True), or drlib incident hint --take")

    def play(self) -> Table:
        """Show the status; with player "reference", solve the incident to its end first."""
        if self._player == "reference" and not self.incident.record.finished():
            self.require(Right.ACT)
            solve(self.incident, report=show)
            self.write_debriefing()
            return self.score()
        return self.status()

    def live(self, variable: str = "incident") -> LiveView:
        """Show symptoms, moves and the clock while cells run, with a form for the next move.

        `variable`: what this notebook calls the incident, for the cells that the form adds.
        """
        from drlib.training.incidents.live.view import LiveView

        self._view = LiveView(self.incident.record, self._make, variable, estimates=self.seat is not None)
        return self._view

    def _make(self, name: str, arguments: tuple[str, ...], estimate_s: int | None) -> str:
        """Carry out what the form of the live view offers, and return the outcome."""
        if name == HINT:
            return self.hint(take=True).note
        if name == DIAGNOSE:
            return self.diagnose(*arguments).note
        return self._act(name, *arguments, estimate_s=estimate_s)

    def _act(self, *words: str, estimate_s: float | None = None) -> str:
        if self.seat is not None:
            return self.seat.act(*words, estimate_s=estimate_s)
        self.require(Right.ACT)
        return self.incident.act(*words)

    def finish(self, *, keep_lab: bool = False) -> Table:
        """Measure, score and reveal; the lab goes down. Raises `UsageError` before a fault was injected."""
        if not self.incident.record.finished():
            self.require(Right.FINISH)
            with nullcontext() if self.seat is None else self.seat.turn("the incident was not finished"):
                self.incident.finish(keep_lab=keep_lab)
            self.write_debriefing()
        return self.score()

    # -- in a team -----------------------------------------------------------------------------------------------------

    def require(self, right: Right) -> None:
        """Raises `UsageError` when this session may not do that: in a team, what counts is done from a seat."""
        require_right(seats_of(self.incident.record.lines()), self._name, right)

    @property
    def _name(self) -> str:
        return "" if self.seat is None else self.seat.name

    def seats(self) -> Table:
        """Show who has joined, and what each seat may do."""
        return seats_shown(
            seats_of(self.incident.record.lines()),
            f'Join: drlib.open_incident("{self.run_dir}", seat="NAME", role="acting"), or role="read-only"',
        )

    def admit(self, name: str, role: str) -> Table:
        """For the trainer: give a seat another role, "acting" or "read-only". Raises `UsageError`."""
        if self.seat is None:
            raise UsageError("no seat was admitted", "only the trainer's seat does that", 'Join with role="trainer".')
        self.seat.admit(name, role)
        return self.seats()

    def debriefing(self) -> Table:
        """Show what each action was estimated to take and took, and where the page is. Changes nothing. Raises `UsageError`
        before the end."""
        played = self.played()
        shown = debriefing_shown(played.actions, estimates_of(played.actions), played.ratings)
        page = self.incident.folder / PAGE
        where = f"The page: {page}" if page.exists() else "Write it as a page: drlib incident debriefing --write"
        shown.note = f"{shown.note}\n{where}"
        return shown

    def write_debriefing(self) -> tuple[Path, Path]:
        """Write the debriefing into the run folder, as a page and as Markdown.

        Raises `UsageError` before the end, and where the folder cannot be written.
        """
        try:
            return write_debriefing(self.played(), self.incident.folder)
        except OSError as error:
            raise UsageError(
                "the debriefing was not written",
                f"{error.strerror or error}; the incident itself is finished and kept",
                f"Make room, then: drlib incident debriefing --write --run {shlex.quote(str(self.incident.folder))}",
            ) from error

    def played(self) -> Played:
        """What the debriefing is made of. Raises `UsageError` before the end."""
        record, reveal = self.incident.record, self.incident.reveal()
        lines = record.lines()
        return Played(
            self.incident.folder.name,
            reveal,
            self.incident.avoided_loss(),
            record.started_ms(),
            actions_of(lines),
            ratings_of(record.events()),
            seats_of(lines),
        )

    # -- after the end -------------------------------------------------------------------------------------------------

    def score(self) -> Table:
        """Show the points by part. Raises `UsageError` before the end."""
        return pictures.score_shown(self.incident.reveal())

    def reveal(self) -> Table:
        """Show causes, symptoms, moves and advice, with a timeline. Raises `UsageError` before the end."""
        reveal, started_ms = self.incident.reveal(), self.incident.record.started_ms()
        return pictures.reveal_shown(reveal, self.incident.avoided_loss(), started_ms)

    def reference(self) -> Table:
        """Show what a good operator would have done. Raises `UsageError` before the end."""
        return pictures.reference_shown(self.incident.reveal())

    def replay(self, speed: float = 10.0) -> ReplayShown:
        """Show the incident over time as an animation, `speed` times as fast: a button plays it, a slider goes to any event."""
        return ReplayShown(self.incident.reveal(), self.incident.record.started_ms(), speed)

    def print_replay(self, speed: float = 60.0) -> None:
        """Print the events again with their original timing, `speed` times as fast."""
        start = time.monotonic()
        for at_s, entry in replay_schedule(self.incident.reveal().entries, speed):
            while (left := start + at_s - time.monotonic()) > 0:
                time.sleep(min(left, 0.1))
            show(pictures.replay_line(entry))

    def conclude(self, pass_points: float = 80.0, name: str = "game-day") -> Table:
        """Write `scorecard.json` and show its verdict: it passes from `pass_points` points on."""
        card = scorecard(self.incident.reveal(), name, self.incident, pass_points)
        folders.conclude(self.incident.folder, card)
        return verdict_table(card.verdict, card.checks)

    # -- for the game master -------------------------------------------------------------------------------------------

    def master(self) -> Table:
        """Show the injected causes, what still has to recover, and the player's last moves. Not for players."""
        record = self.incident.record
        finished = record.finished()
        if not finished:
            self.require(Right.MASTER)
        measurements = record.measurements() if finished else Measurements(None, None, None)
        entries = build_reveal(record.events(), measurements).entries
        unresolved = () if finished else self.incident.unresolved()
        return pictures.master_shown(record.injected_causes(), unresolved, entries)

    def inject(self, cause: str, where: str = "", how: str = "") -> Table:
        """Inject one more cause. Raises `UsageError` if it affects the same parts as one that is injected already."""
        self.require(Right.MASTER)
        added = self.incident.inject(cause, where, how)
        return Table(f"Injected: {added.cause}", [], note=added.render(added.definition.story))

    def close(self) -> None:
        """End the incident's processes, finished or not, and the live view; a seat that is not the trainer's is only left.

        Safe to repeat.
        """
        if self._view is not None:
            self._view.close()
        if self.seat is not None:
            access = self.seat.access
            self.seat.leave()
            if access is not Access.TRAINER:
                return
        self.incident.close()


def require_player(player: str) -> None:
    """Raises `UsageError` for one that there is not."""
    if player not in PLAYERS:
        raise UsageError(f"player {player}", "there is no player of that name", f"Use {' or '.join(PLAYERS)}.")


def scorecard(reveal: Reveal, name: str, incident: Incident, pass_points: float) -> Scorecard:
    """Build the scorecard of a finished incident for its run folder. Of one that passed, missing points are a condition."""
    score = reveal.score
    passed = score.points >= pass_points
    checks = [
        Check(
            name="the score",
            verdict=Verdict.PASS if passed else Verdict.FAIL,
            evidence=f"{score.points:g} of 100 points, {pass_points:g} are needed",
        )
    ]
    checks += [
        Check(
            name=part.name,
            verdict=Verdict.PASS if part.points >= part.of else Verdict.CONDITIONS if passed else Verdict.FAIL,
            evidence=f"{part.points:g} of {part.of:g} points: {part.why}",
        )
        for part in score.parts
    ]
    started_ms = incident.record.started_ms()
    measured = reveal.measurements
    return Scorecard(
        runbook=name,
        run_id=incident.folder.name,
        verdict=verdicts.overall(checks, measured.lost or 0),
        rto_seconds=RtoSeconds(detect=score.detect_s, total=score.recover_s),
        rpo=Rpo(records=measured.lost, measured=measured.lost is not None),
        records=Records(lost=measured.lost, duplicated=measured.doubled),
        groups=(),
        checks=tuple(checks),
        started_ms=started_ms,
        finished_ms=started_ms + round(incident.record.events()[-1].at_s * 1000),
        kind=Kind.DRILL,
    )
