"""One incident from start to reveal: what a player, a trainer and a program do with it.

Rules: every call works from any process that can read the folder, as everything is in it and in its lab; what a
player did is on disk with its outcome. A player is told symptoms, never causes, until it is finished. Finishing
measures what the clusters do; nothing a player says makes it over. Its own lab is taken down when it is finished; one
that was lent stays up. Not for: drawing (`pictures`), playing by itself (`reference_player`).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError, UsageError
from drlib.files import write_whole
from drlib.lab.lab import Lab
from drlib.training.incidents.lab.inject import refuse_unfit
from drlib.training.incidents.lab.measure import measure
from drlib.training.incidents.lab.moves import carry_out
from drlib.training.incidents.lab.observe import Looker
from drlib.training.incidents.lab.scene import GUARDED, WATCH, Scene
from drlib.training.incidents.record import Record
from drlib.training.incidents.rules.causes import CAUSES, Planted
from drlib.training.incidents.rules.moves import parse
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.reveal import Reveal, tell
from drlib.training.incidents.rules.score import Happened, Score, judge
from drlib.training.incidents.rules.seed import draw
from drlib.training.incidents.rules.symptoms import STILL_S, Look, Symptom, symptoms
from drlib.training.incidents.watch import plant

LAB_DIR: Final = "lab"
_STALE_MS: Final = 20_000
_SETTLE_S: Final = 30.0


class Incident:
    """The incident in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.record = Record(self.folder)

    # -- its course --------------------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls, folder: Path, seed: int, level: int | None = None, *, lab_dir: Path | None = None, at_once: bool = False
    ) -> Incident:
        """Bring up a lab, traffic and mirror in `folder`, which is there, and let the cause come; `at_once`: without
        a delay.

        `lab_dir`: a lab that runs and was not used yet, instead of one of its own. Raises `UsageError` for what is
        wrong with any of it, `MissingDependency`, `Unreachable`; nothing of its own is left running then.
        """
        drawn = draw(seed, level)
        lab = Lab(folder / LAB_DIR, extra=GUARDED, detach=True) if lab_dir is None else Lab.attach(lab_dir)
        own = lab_dir is None
        try:
            if own:
                lab.up()
            refuse_unfit(lab, drawn.causes)
            scene = Scene(lab, folder.absolute())
            scene.begin()
            game = cls(folder)
            sealed = game.record.hide(drawn)
            game.record.write(
                Happened.STARTED, seed=seed, level=drawn.level, sealed=sealed, lab=str(lab.root), own_lab=own
            )
            game._see_the_usual(scene)
            game._start_watch(scene, 0.0 if at_once else drawn.delay_s)
            return game
        except BaseException:
            if own:
                lab.down()
            raise

    def status(self) -> tuple[Look, tuple[Symptom, ...]]:
        """The newest look, and what is out of the ordinary in it. Raises `UsageError` where nobody looks any more."""
        self._refuse_finished()
        looks = self._looks()
        return looks[-1], symptoms(looks, self.record.usual())

    def act(self, *words: str) -> str:
        """Make one move, such as `act("restart-broker", "LEFT")`, or in one string. Raises `UsageError`, and what the
        move raises."""
        move = parse(words)
        self._refuse_finished()
        try:
            said = carry_out(self.scene(), move)
        except DrlibError as error:
            self.record.write(Happened.ACTED, move=str(move), failed=True, said=error.what)
            raise
        self.record.write(Happened.ACTED, move=str(move), said=said)
        return said

    def diagnose(self, cause: str) -> None:
        """Say what it is, by a name of `drlib incident list`. Whether that is right is told at the end. Raises
        `UsageError`."""
        self._refuse_finished()
        if cause not in CAUSES:
            raise UsageError(f"cause {cause}", "there is none of that name", f"There are {', '.join(CAUSES)}.")
        self.record.write(Happened.DIAGNOSED, word=cause)

    def hint(self) -> str:
        """The next hint of a cause that is in; each costs points. Raises `UsageError` where there is none (left)."""
        self._refuse_finished()
        taken = sum(line.event == Happened.HINTED for line in self.record.lines())
        planted = self.record.planted()
        hints = [one.said(text) for number in range(3) for one in planted for text in (one.kind.hints[number],)]
        if taken >= len(hints):
            why = "all of them were given" if planted else "nothing has been seen yet"
            raise UsageError("no hint", why, "See: drlib incident status.")
        self.record.write(Happened.HINTED, word=hints[taken])
        return hints[taken]

    def inject(self, cause: str, where: str = "", how: str = "", *, by: str = "a game master") -> Planted:
        """Put one more cause in, now, from any process. Raises `UsageError` for one that does not go with what is
        in."""
        self._refuse_finished()
        planted = choose(cause, where, how)
        for other in self.record.planted():
            if not planted.places.isdisjoint(other.places):
                raise UsageError(
                    f"cause {cause}",
                    f"it touches the same as {other.cause}, which is in",
                    "Inject another, or wait for the end.",
                )
        scene = self.scene()
        refuse_unfit(scene.lab, [planted])
        plant(scene, self.record, [planted], by=by)
        return planted

    def standing(self) -> tuple[str, ...]:
        """What still speaks against the incident being over: for the master's view, not for players."""
        planted = self.record.planted()
        return unresolved(planted, self._looks(), self.record.usual()) if planted else ("no cause is in yet",)

    def finish(self, *, settle_s: float = _SETTLE_S, keep_lab: bool = False) -> Reveal:
        """Measure, score, and open what was sealed. Waits up to `settle_s` seconds for what was repaired just now.

        Raises `UsageError` where it is over already, or nothing has happened yet.
        """
        self._refuse_finished()
        scene = self.scene()
        planted = self.record.planted()
        if not planted:
            raise UsageError("too early", "nothing has happened yet", "Watch: drlib incident status.")
        recovered = self._settled(scene, settle_s)
        scene.lab.registry.stop(WATCH)
        facts = measure(scene, recovered=recovered)
        self.record.keep_facts(facts)
        self.record.write(Happened.FINISHED, recovered=recovered, lost=facts.lost, read_again=facts.read_again)
        if self._own_lab() and not keep_lab:
            scene.lab.down()
        shown = self.reveal()
        write_whole(self.folder / "score.json", json.dumps(_scored(shown.score), indent=1) + "\n")
        return shown

    def reveal(self) -> Reveal:
        """What it was, who did what when, what it is worth, and what a good operator would have done. Raises
        `UsageError` before its end."""
        facts = self.record.facts()
        self.record.incident()  # that it is the one which was started
        return tell(self.record.events(), facts)

    def score(self) -> Score:
        """Raises `UsageError` before its end."""
        return judge(self.record.events(), self.record.facts())

    def close(self) -> None:
        """End it without a score: its processes, and its lab if that is its own. Safe to repeat."""
        try:
            scene = self.scene()
        except UsageError:
            return
        if self._own_lab():
            scene.lab.down()
        else:
            names = [*scene.application_names(), WATCH]
            for name in names:
                scene.lab.registry.stop(name)

    # -- parts -------------------------------------------------------------------------------------------------------

    def scene(self) -> Scene:
        """Where it plays. Raises `UsageError` when its lab is down."""
        return Scene(Lab.attach(Path(str(self.record.lines()[0].data["lab"]))), self.folder)

    @property
    def properties(self) -> Path:
        """The mirror's file, for drlib status."""
        return self.scene().properties

    def _own_lab(self) -> bool:
        return bool(self.record.lines()[0].data["own_lab"])

    def _see_the_usual(self, scene: Scene) -> None:
        """Wait for a second look that shows nothing out of the ordinary, and keep it."""
        looker = Looker(scene)
        looks: list[Look] = []

        def calm() -> bool:
            looks.append(looker.look())
            first = looks[0]
            if looks[-1].at_ms - first.at_ms < STILL_S * 1000:
                return False
            well = not symptoms(looks, looks[-1]) and all(group.right is not None for group in looks[-1].groups)
            if not well:
                looks.clear()
            return well

        scene.wait("all is well before it begins", calm)
        self.record.keep_usual(looks[-1])

    def _start_watch(self, scene: Scene, delay_s: float) -> None:
        scene.lab.start_module(
            WATCH, "drlib.training.incidents.watch", str(self.folder), str(scene.lab.root), str(delay_s)
        )

    def _looks(self) -> tuple[Look, ...]:
        """The last seconds. Raises `UsageError` where nobody looks any more, so that nobody trusts an old picture."""
        scene = self.scene()
        scene.wait("somebody has looked", lambda: bool(self.record.looks()) or not scene.applications.runs(WATCH), 20)
        self.watched()
        return self.record.looks()

    def watched(self) -> bool:
        """True. Raises `UsageError` where its process ended: then nothing comes any more, and nothing is seen."""
        scene = self.scene()
        if not scene.applications.runs(WATCH):
            raise UsageError(
                "nobody watches this incident",
                f"its process has ended; {scene.lab.root / WATCH}.log says why",
                "End it: drlib incident end, and start another.",
            )
        return True

    def _settled(self, scene: Scene, settle_s: float) -> bool:
        """Is it over, within `settle_s` seconds from now? As the watch has sealed it."""
        try:
            scene.wait("it is over", self._is_over, settle_s)
        except DrlibError:
            return False
        return True

    def _is_over(self) -> bool:
        course = [e.what for e in self.record.events() if e.what in (Happened.RECOVERED, Happened.RELAPSED)]
        return bool(course) and course[-1] is Happened.RECOVERED

    def _refuse_finished(self) -> None:
        if self.record.finished():
            raise UsageError(
                "this incident is over", "it was finished", "See: drlib incident reveal, or start another."
            )


def choose(cause: str, where: str = "", how: str = "") -> Planted:
    """A cause with what is given of it, else the first there is. Raises `UsageError`."""
    if cause not in CAUSES:
        raise UsageError(f"cause {cause}", "there is none of that name", f"There are {', '.join(CAUSES)}.")
    kind = CAUSES[cause]
    for given, known in ((where, kind.wheres), (how, kind.hows)):
        if given and given not in known:
            raise UsageError(f"{cause}: {given}", "it cannot be that", f"It can be {', '.join(known)}.")
    return Planted(cause, where or kind.wheres[0], how or kind.hows[0])


def _scored(score: Score) -> dict[str, object]:
    return {"points": score.points, **asdict(score)}
