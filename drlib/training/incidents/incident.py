"""One incident from start to reveal: everything a player, a game master and a program can do with it.

Rules: every call works from any process that can read the folder, because all state is in the folder and in the lab; what a
player did is on disk, with its outcome. A player sees symptoms, and causes only after `finish`. `finish` measures the
clusters: nothing that a player says decides whether the incident has recovered. A lab that the incident started is taken
down by `finish`; a lab that was passed in stays up.
Not for: tables and figures (`pictures`), solving the incident (`reference_player`).
"""

import difflib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError, UsageError
from drlib.files import write_whole
from drlib.lab.lab import Lab
from drlib.training.incidents.lab.inject import needed_security, require_suitable_lab
from drlib.training.incidents.lab.measure import measure
from drlib.training.incidents.lab.moves import apply_move
from drlib.training.incidents.lab.observe import Observer
from drlib.training.incidents.lab.testbed import GUARDED, JAVA_LEVELS, WATCH, IncidentTestbed
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.avoided_loss import AvoidedLoss, avoided_loss
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.reveal import Reveal, build_reveal
from drlib.training.incidents.rules.score import EventKind, acknowledges, quiet_since, recovered_since
from drlib.training.incidents.rules.seed import IncidentPlan, draw_plan
from drlib.training.incidents.rules.symptoms import STALL_S, Observation, Symptom, detect_symptoms
from drlib.training.incidents.watch import LASTS_S, inject_and_record

LAB_DIR: Final = "lab"
_SETTLE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Calm:
    """Since when the incident has recovered, and since when no symptom is seen, ms since the epoch; None if that is not so.

    `acknowledged`: the player has reported that something is wrong.
    """

    recovered_ms: int | None
    quiet_ms: int | None
    acknowledged: bool = False


class Incident:
    """The incident in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.record = IncidentRecord(self.folder)

    @classmethod
    def start(
        cls, folder: Path, seed: int, level: int | None = None, *, lab_dir: Path | None = None, at_once: bool = False
    ) -> "Incident":
        """Start lab, applications and mirror in the existing `folder`; the faults follow after the plan's delay.

        `lab_dir`: a running, unused lab to use instead of a new one. `at_once`: inject the faults without a delay. Raises
        `UsageError`, `MissingDependency` or `Unreachable`. Then a lab started here is taken down, and in a given one what the
        incident started is stopped; the folder is the caller's.
        """
        plan = require_startable(seed, level, lab_dir)
        own = lab_dir is None
        lab = (
            Lab(folder / LAB_DIR, extra=GUARDED, security=needed_security(plan.level), detach=True)
            if lab_dir is None
            else Lab.attach(lab_dir)
        )
        testbed = IncidentTestbed(lab, folder.absolute())
        try:
            if own:
                lab.up()
            testbed.start(java=plan.level in JAVA_LEVELS)
            incident = cls(folder)
            digest = incident.record.seal_plan(plan)
            # The level that was asked for: the one that the seed chose says something of the causes.
            incident.record.write(
                EventKind.STARTED, seed=seed, level=level, sealed=digest, lab=str(lab.root), own_lab=own
            )
            incident._record_baseline(testbed)
            incident._start_watch(testbed, 0.0 if at_once else plan.delay_s)
            return incident
        except BaseException:
            if own:
                lab.down()
            else:
                testbed.stop_all()
            raise

    def status(self) -> tuple[Observation, tuple[Symptom, ...]]:
        """Return the newest observation and its symptoms. Raises `UsageError` when the incident is not watched any more."""
        self.refuse_finished()
        observations = self._observations()
        return observations[-1], detect_symptoms(observations, self.record.baseline())

    def calm(self) -> Calm:
        """Since when it has recovered, since when no symptom is seen, and whether it is acknowledged."""
        events, started_ms = self.record.events(), self.record.started_ms()

        def moment(at_s: float | None) -> int | None:
            return None if at_s is None else started_ms + round(at_s * 1000)

        return Calm(moment(recovered_since(events)), moment(quiet_since(events)), any(map(acknowledges, events)))

    def act(self, *words: str, seat: str = "") -> str:
        """Make one move, such as `act("restart-broker", "LEFT")` or the same in one string, and return its outcome.

        `seat`: who makes it, in a team. Raises `UsageError`, and what the move raises.
        """
        move = parse_move(words)
        self.refuse_finished()
        try:
            outcome = apply_move(self.testbed(), move)
        except DrlibError as error:
            self.record.write(EventKind.ACTED, move=str(move), failed=True, said=error.what, **_made_by(seat))
            raise
        self.record.write(EventKind.ACTED, move=str(move), said=outcome, **_made_by(seat))
        return outcome

    def diagnose(self, cause: str, *, seat: str = "") -> None:
        """Record a diagnosis, a name from `drlib incident list`. The reveal says whether it is right. Raises `UsageError`."""
        self.refuse_finished()
        require_cause(cause)
        self.record.write(EventKind.DIAGNOSED, word=cause, **_made_by(seat))

    def hint(self, *, seat: str = "") -> str:
        """Return the next hint on an injected cause; each costs points. Raises `UsageError` when there is none."""
        self.refuse_finished()
        taken = sum(line.event == EventKind.HINTED for line in self.record.lines())
        injected = self.record.injected_causes()
        hints = [cause.render(cause.definition.hints[number]) for number in range(3) for cause in injected]
        if taken >= len(hints):
            why = "all hints were given" if injected else "no fault was injected yet"
            raise UsageError("no hint", why, "Look at the symptoms: drlib incident status")
        self.record.write(EventKind.HINTED, word=hints[taken], **_made_by(seat))
        return hints[taken]

    def inject(self, cause: str, where: str = "", how: str = "", *, by: str = "a game master") -> InjectedCause:
        """Inject one more cause, now. Raises `UsageError` if it affects the same parts as one that is injected already."""
        self.refuse_finished()
        added = choose_cause(cause, where, how)
        for other in self.record.injected_causes():
            if not added.places.isdisjoint(other.places):
                raise UsageError(
                    f"cause {cause}",
                    f"it affects the same parts as {other.cause}, which is injected already",
                    "Inject another cause, or wait for the end of this incident.",
                )
        testbed = self.testbed()
        require_suitable_lab(testbed.lab, [added])
        inject_and_record(testbed, self.record, [added], by=by)
        return added

    def unresolved(self) -> tuple[str, ...]:
        """What still has to recover. For the game master, not for players."""
        injected = self.record.injected_causes()
        if not injected:
            return ("no fault was injected yet",)
        return unresolved(injected, self._observations(), self.record.baseline())

    def finish(self, *, settle_s: float = _SETTLE_S, keep_lab: bool = False) -> Reveal:
        """Measure, score and reveal the incident. Waits up to `settle_s` seconds for recovery from recent repairs.

        Raises `UsageError` if it is finished already, or if no fault was injected yet.
        """
        self.refuse_finished()
        testbed = self.testbed()
        if not self.record.injected_causes():
            raise UsageError(
                "it is too early to finish", "no fault was injected yet", "Watch for symptoms: drlib incident status"
            )
        recovered = self._wait_recovered(testbed, settle_s)
        testbed.lab.registry.stop(WATCH)
        measurements = measure(testbed, recovered=recovered)
        self.record.save_measurements(measurements)
        self.record.write(
            EventKind.FINISHED, recovered=recovered, lost=measurements.lost, read_again=measurements.read_again
        )
        if not keep_lab:
            self.close()
        reveal = self.reveal()
        score = {"points": reveal.score.points, **asdict(reveal.score)}
        write_whole(self.folder / "score.json", json.dumps(score, indent=1) + "\n")
        return reveal

    def reveal(self) -> Reveal:
        """Return causes, events, score and advice. Raises `UsageError` before `finish`, and for a changed plan."""
        measurements = self.record.measurements()
        self.record.plan()  # verifies that the plan is the one that was sealed at the start
        return build_reveal(self.record.events(), measurements)

    def avoided_loss(self) -> AvoidedLoss:
        """What an earlier right first move would have avoided. Raises `UsageError` before `finish`."""
        record = self.record
        return avoided_loss(record.events(), record.samples(), record.started_ms(), record.measurements())

    def close(self) -> None:
        """End the incident without a score: stop its processes, or take down the lab it started. Safe to repeat."""
        try:
            testbed = self.testbed()
        except UsageError:
            return
        if self._own_lab():
            testbed.lab.down()
        else:
            testbed.stop_all()

    def testbed(self) -> IncidentTestbed:
        """Attach to the incident's lab. Raises `UsageError` when it is down."""
        return IncidentTestbed(Lab.attach(Path(str(self.record.lines()[0].data["lab"]))), self.folder)

    @property
    def properties(self) -> Path:
        """The mirror's file, for `drlib status`."""
        return self.testbed().properties

    def is_watched(self) -> bool:
        """Whether its watch process runs: it does from the start to the end of an incident."""
        with suppress(UsageError):
            return bool(self.record.lines()) and self.testbed().applications.runs(WATCH)
        return False

    def require_watch(self) -> bool:
        """Return True. Raises `UsageError` when the watch process has ended: then there are no new observations."""
        testbed = self.testbed()
        if not testbed.applications.runs(WATCH):
            raise UsageError(
                "this incident is not watched any more",
                f"its watch process has ended, at the latest {LASTS_S / 3600:g} hours after its start; "
                f"see {testbed.lab.root / WATCH}.log",
                "End it with `drlib incident end` and start another.",
            )
        return True

    def _own_lab(self) -> bool:
        return bool(self.record.lines()[0].data["own_lab"])

    def _record_baseline(self, testbed: IncidentTestbed) -> None:
        """Wait until everything worked for `STALL_S` seconds, and save that observation as the baseline."""
        observer = Observer(testbed)
        observations: list[Observation] = []

        def is_healthy() -> bool:
            observations.append(observer.observe())
            first, last = observations[0], observations[-1]
            if last.at_ms - first.at_ms < STALL_S * 1000:
                return False
            synchronized = all(group.right is not None for group in last.groups)
            healthy = not detect_symptoms(observations, last) and synchronized
            if not healthy:
                observations.clear()
            return healthy

        testbed.wait("everything works before the incident", is_healthy)
        self.record.save_baseline(observations[-1])

    def _start_watch(self, testbed: IncidentTestbed, delay_s: float) -> None:
        module = "drlib.training.incidents.watch"
        testbed.lab.start_module(WATCH, module, str(self.folder), str(testbed.lab.root), str(delay_s))

    def _observations(self) -> tuple[Observation, ...]:
        """Return the observations of the last seconds. Raises `UsageError` instead of returning outdated ones."""
        testbed = self.testbed()
        testbed.wait(
            "the first observation",
            lambda: bool(self.record.observations()) or not testbed.applications.runs(WATCH),
            20,
        )
        self.require_watch()
        return self.record.observations()

    def _wait_recovered(self, testbed: IncidentTestbed, settle_s: float) -> bool:
        """Report whether the watch records a recovery within `settle_s` seconds from now."""
        try:
            testbed.wait("the incident has recovered", self._is_recovered, settle_s)
        except DrlibError:
            return False
        return True

    def _is_recovered(self) -> bool:
        return recovered_since(self.record.events()) is not None

    def refuse_finished(self) -> None:
        """Raises `UsageError` once the incident is over."""
        if self.record.finished():
            raise UsageError(
                "this incident is over", "it was finished", "See `drlib incident reveal`, or start another."
            )


def require_startable(seed: int, level: int | None, lab_dir: Path | None) -> IncidentPlan:
    """The plan of an incident that can be started, from the given lab where there is one. Changes nothing.

    Raises `UsageError`, and `Unreachable` for a lab that does not answer.
    """
    plan = draw_plan(seed, level)
    if lab_dir is not None:
        lab = Lab.attach(lab_dir)
        require_suitable_lab(lab, plan.causes, plan.level)
        IncidentTestbed(lab, lab.root).refuse_used_lab()
    return plan


def _made_by(seat: str) -> dict[str, str]:
    """What a line of the journal says of who did it: nothing outside of a team."""
    return {"seat": seat} if seat else {}


def require_cause(cause: str) -> None:
    """Raises `UsageError` for a name that no cause has."""
    if cause not in CAUSES:
        raise UsageError(f"cause {cause}", "there is no cause of that name", _meant(cause))


def _meant(cause: str) -> str:
    near = difflib.get_close_matches(cause, CAUSES, 1)
    return f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(CAUSES)}."


def choose_cause(cause: str, where: str = "", how: str = "") -> InjectedCause:
    """Complete a cause with its first place and variant where none is given. Raises `UsageError`."""
    require_cause(cause)
    definition = CAUSES[cause]
    for option, value, known in (("--where", where, definition.wheres), ("--how", how, definition.hows)):
        if value and value not in known:
            raise UsageError(f"{cause} {option} {value}", "this cause does not have it", f"Use {', '.join(known)}.")
    return InjectedCause(cause, where or definition.wheres[0], how or definition.hows[0])
