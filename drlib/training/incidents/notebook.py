"""An incident in a notebook: the same calls as on the command line, each showing what came of it.

Rules: it draws nothing itself and decides nothing; a cell that is run again does no harm: what is over is shown
again. A master's calls work from another notebook that opened the same folder.
"""

from __future__ import annotations

import time
from typing import Final

from drlib.errors import UsageError
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import SCORECARD, Kind, Records, Rpo, RtoSeconds, Scorecard
from drlib.training.incidents import pictures as views
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.reference_player import solve
from drlib.training.incidents.rules.reveal import Reveal, due, tell
from drlib.training.incidents.rules.score import Facts
from drlib.ui.display import Shown

PLAYERS: Final = ("you", "reference")


class PlayedIncident:
    """`game`, for a notebook. A context manager; `close` ends its processes."""

    def __init__(self, game: Incident, player: str = "you") -> None:
        if player not in PLAYERS:
            raise UsageError(f"player {player}", "there is none of that name", f"There are {' and '.join(PLAYERS)}.")
        self.game = game
        self._player = player

    @property
    def run_dir(self) -> str:
        """Its folder, by which another notebook opens the same incident."""
        return str(self.game.folder)

    # -- the player --------------------------------------------------------------------------------------------------

    def moves(self) -> Shown:
        """What can be done, and what it can be."""
        return views.catalogue_shown(
            f"Another notebook, or this one after a restart, opens it by run_dir: {self.run_dir}"
        )

    def status(self) -> Shown:
        """Symptoms, and how everything stands."""
        if self.game.record.finished():
            return self.score()
        look, seen = self.game.status()
        return views.status_shown(look, seen, str(self.game.properties))

    def act(self, *words: str) -> Shown:
        """Make one move: `act("restart-broker", "LEFT")`. Raises what the move raises."""
        said = self.game.act(*words)
        return Shown(" ".join(words), [{"what came of it": said}])

    def diagnose(self, cause: str) -> Shown:
        """Say what it is."""
        self.game.diagnose(cause)
        return Shown(f"Diagnosis: {cause}", [], note="Whether it is right is told at the end.")

    def hint(self) -> Shown:
        """The next hint, for 5 points."""
        return Shown("Hint", [], note=self.game.hint())

    def play(self) -> Shown:
        """Leave it to the player: the reference plays it to its end; you have the cells below."""
        if self._player == "reference" and not self.game.record.finished():
            solve(self.game, tell=lambda line: print(line, flush=True))
            return self.score()
        return self.status()

    def finish(self) -> Shown:
        """Measure, score and reveal; the lab goes down. Raises `UsageError` before anything has happened."""
        if not self.game.record.finished():
            self.game.finish()
        return self.score()

    # -- afterwards --------------------------------------------------------------------------------------------------

    def score(self) -> Shown:
        """Points by part. Raises `UsageError` before its end."""
        return views.score_shown(self.game.reveal())

    def reveal(self) -> Shown:
        """Cause, symptoms, moves and what a good operator would have done, with a picture. Raises `UsageError` before
        its end."""
        return views.reveal_shown(self.game.reveal(), self.game.record.began_ms())

    def reference(self) -> Shown:
        """What a good operator would have done, in words. Raises `UsageError` before its end."""
        return views.reference_shown(self.game.reveal())

    def replay(self, speed: float = 60.0) -> None:
        """Tell it again as it happened, `speed` times as fast."""
        begin = time.monotonic()
        for at, moment in due(self.game.reveal().moments, speed):
            while (left := begin + at - time.monotonic()) > 0:
                time.sleep(min(left, 0.1))
            print(views.replay_line(moment), flush=True)

    def conclude(self, pass_points: float = 80.0, name: str = "game-day") -> Shown:
        """The verdict, with `scorecard.json`: it passes from `pass_points` on."""
        reveal = self.game.reveal()
        card = scorecard(reveal, name, self.game, pass_points)
        card.write(self.game.folder / SCORECARD)
        rows = [{"check": one.name, "verdict": one.verdict.value, "evidence": one.evidence} for one in card.checks]
        return Shown(f"Verdict: {card.verdict.value}", rows)

    # -- the master --------------------------------------------------------------------------------------------------

    def master(self) -> Shown:
        """What is in, and how the player does. Not for players."""
        record = self.game.record
        story = tell(record.events(), record.facts() if record.finished() else Facts(None, None, None))
        standing = () if record.finished() else self.game.standing()
        return views.master_shown(record.planted(), standing, story.moments)

    def inject(self, cause: str, where: str = "", how: str = "") -> Shown:
        """Put one more cause in. Raises `UsageError` for one that does not go with what is in."""
        planted = self.game.inject(cause, where, how)
        return Shown(f"In: {planted.cause}", [{"what was done": planted.said(planted.kind.story)}])

    def close(self) -> None:
        """End its processes, finished or not. Safe to repeat."""
        self.game.close()

    def __enter__(self) -> PlayedIncident:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def scorecard(reveal: Reveal, name: str, game: Incident, pass_points: float) -> Scorecard:
    """What a finished incident says to a run's folder."""
    score = reveal.score
    enough = score.points >= pass_points
    checks = [
        Check(
            name="the score",
            verdict=Verdict.PASS if enough else Verdict.FAIL,
            evidence=f"{score.points:g} of 100 points, {pass_points:g} are needed",
        )
    ]
    checks += [
        Check(
            name=part.name,
            verdict=Verdict.PASS if part.points >= part.of or enough else Verdict.FAIL,
            evidence=f"{part.points:g} of {part.of:g} points: {part.why}",
        )
        for part in score.parts
    ]
    events = game.record.events()
    began = game.record.began_ms()
    return Scorecard(
        runbook=name,
        run_id=game.folder.name,
        verdict=Verdict.PASS if enough else Verdict.FAIL,
        rto_seconds=RtoSeconds(detect=score.detect_s, total=score.recover_s),
        rpo=Rpo(records=reveal.facts.lost, measured=reveal.facts.lost is not None),
        records=Records(lost=reveal.facts.lost, duplicated=reveal.facts.doubled),
        groups=(),
        checks=tuple(checks),
        started_ms=began,
        finished_ms=began + round(events[-1].at_s * 1000),
        kind=Kind.DRILL,
    )
