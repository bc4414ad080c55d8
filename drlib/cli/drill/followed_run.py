"""A run of a failover or of the way back on one screen, as its folder tells it.

Rules: what applications have to change is said once they have moved, and of each application when it is back. With `--json`
standard output has one JSON document a line.
Not for: the choice of the runbook and the question before it (`drlib.cli.drill.confirmation`); what is
run, which is the runbook's, by `drlib run`'s own code (`drlib.cli.drill.run`).
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drlib.cli.drill.run import Screen
from drlib.errors import DrlibError, ObjectiveMissed, StalePlan
from drlib.formats import one_line
from drlib.outgoing.terminal import show, write_document

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings
    from drlib.drill.assessment.assessment import Assessment
    from drlib.drill.assessment.returning import ReturnAssessment
    from drlib.drill.plan.plan import Step
    from drlib.model import Flow
    from drlib.runbook.execution.execute import Listener, RunResult
    from drlib.runbook.introduce import Introduction
    from drlib.ui.terminal.run import Progress

_LOOK_S: Final = 0.3
_SAY_S: Final = 5.0  # between two lines about a wait
MIRRORED_S: Final = 20.0  # for the workers that have waited to mirror the flow again
_WAVES: Final = ("wave.move", "wave.switchover")
_MOVES: Final = ("pointer.move", "switchover.move", *_WAVES)


class FollowedScreen(Screen):
    """The run as its folder tells it: each step, what applications have to change, and which of them are back."""

    def __init__(self, target: str, file: Path, *, as_json: bool) -> None:
        self._target, self._file, self._json = target, file, as_json

    def introduce(self, run: Introduction) -> None:
        if not self._json:
            super().introduce(run)

    @contextmanager
    def following(self, folder: Path | None, progress: Progress) -> Iterator[Listener]:
        if folder is None:
            with super().following(folder, progress) as tell:
                yield tell
            return
        follower = Follower(folder, self._target, self._file, progress, as_json=self._json)
        progress.stage("starting the run's notebook")
        follower.start()
        try:
            yield lambda step, share: None
        finally:
            follower.close()

    def document(self, result: RunResult) -> int:
        """Write the result as JSON; returns the exit code."""
        from drlib.ui.terminal import failover as texts

        card = result.scorecard
        values = {
            "verdict": card.verdict.value,
            "exit_code": result.exit_code,
            "run": str(result.folder),
            "report": str(result.report),
            "rto_seconds": card.rto_seconds.total,
            "rto_at_least": card.rto_seconds.total if card.rto_seconds.at_least is None else card.rto_seconds.at_least,
            "rpo_records": card.rpo.records,
            "rpo_seconds": card.rpo.seconds,
            "rpo_at_least": card.rpo.at_least,
            "error": result.error,
        }
        write_document(texts.result_json(values) + "\n")
        return result.exit_code


class FailoverScreen(FollowedScreen):
    """A failover, and what comes next."""

    def __init__(self, made: Assessment, file: Path, *, as_json: bool) -> None:
        super().__init__(made.target, file, as_json=as_json)
        self._made = made

    @contextmanager
    def following(self, folder: Path | None, progress: Progress) -> Iterator[Listener]:
        """The run counts its RTO from when this command found the source silent, unless more is known."""
        from drlib.drill.step import rto_clock

        if folder is not None and not self._made.source_serves:
            rto_clock.keep_silent(folder, self._made.at_ms)
        with super().following(folder, progress) as tell:
            yield tell

    def result(self, result: RunResult) -> int:
        from drlib.runbook import plans as drills

        if self._json:
            return self.document(result)
        code = super().result(result)
        if code in (0, ObjectiveMissed.exit_code):  # every step is done
            show_next(self._made, self._file)
        elif drills.unfinished(result.folder):
            say_again("failover", self._file, self._made.flow, result)
        return code


def say_again(command: str, file: Path, flow: str, result: RunResult) -> None:
    """The command that assesses again: it continues the run, and gives up one whose plan does not hold any more, or whose undo
    was refused."""
    from drlib.drill.run import request

    argv = ["drlib", command, str(file), flow]
    new_plan = shlex.join([*argv, "--supersede", result.folder.name])
    if result.exit_code == StalePlan.exit_code or request.ways_on(result.folder).refused:
        show(f"Continued, it would stop there again. Begin with a new plan: {new_plan}", error=True)
    else:
        show(f"Or repeat it, after a new assessment: {shlex.join(argv)}", error=True)
        show(f"Where the runbook has to change, begin with a new plan: {new_plan}", error=True)


def show_next(made: Assessment, file: Path) -> None:
    """What there is to do after a failover."""
    from drlib.config.both_ways.shared_topics import all_shared
    from drlib.config.settings import load_mirror_settings
    from drlib.model import Flow
    from drlib.ui.terminal import failover as texts

    both = all_shared(load_mirror_settings(file), Flow(made.source, made.target))
    for line in texts.next_lines(made.source, made.target, str(file), both_ways=both):
        show(one_line(line))


class FailbackScreen(FollowedScreen):
    """The runs of the way back, and what protects the source afterwards."""

    def __init__(self, made: ReturnAssessment, file: Path, *, as_json: bool) -> None:
        super().__init__(made.source, file, as_json=as_json)
        self._made = made

    def result(self, result: RunResult) -> int:
        from drlib.runbook import plans as drills

        if self._json:
            return self.document(result)
        code = super().result(result)
        if code and drills.unfinished(result.folder):
            say_again("failback", self._file, self._made.flow, result)
        return code

    def protected(self, settings: MirrorSettings, flow: Flow) -> None:
        """Look whether the flow is mirrored again, which its workers begin within seconds, and say so."""
        from drlib.drill.assessment.observe_return import until_mirrored
        from drlib.ui.terminal import failover as texts

        again = until_mirrored(settings, flow, MIRRORED_S)
        if self._json:
            write_document(texts.mirrored_json(again) + "\n")
            return
        for line in texts.home_lines(again, self._made.source, self._made.target, str(self._file)):
            show(one_line(line))


class Follower:
    """A thread that reads the run's folder and says what is new. It never fails the run: what it cannot read, it says later."""

    def __init__(self, folder: Path, target: str, file: Path, progress: Progress, *, as_json: bool) -> None:
        self._folder, self._target, self._file, self._progress, self._json = folder, target, file, progress, as_json
        self._lines, self._failed_before = 0, _journaled(folder)
        self._said_changes: set[str] = set()
        self._said_s = time.monotonic()
        self._seen: dict[tuple[object, object], object] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run-follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Look a last time, and end."""
        self._end.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._end.wait(_LOOK_S)
            with suppress(DrlibError, OSError, ValueError):
                self.look()

    def look(self) -> None:
        """Say what the folder has that was not said yet. Raises what reading it raises."""
        from drlib.drill.run import planning
        from drlib.runs import journal
        from drlib.runs.journal import JOURNAL

        if not (self._folder / JOURNAL).exists():
            return
        steps = planning.read(self._folder).drill.steps
        lines = journal.read(self._folder / JOURNAL)
        titles = {step.name: step.title for step in steps}
        for number, line in enumerate(lines[self._lines :], self._lines):
            name = str(line.data.get("step") or "")
            if line.event == "step-started":
                self._progress.stage(titles.get(name, name))
            elif line.event == "step-failed" and number >= self._failed_before:
                self._progress.fail()
                self._progress.note(f"failed: {line.data.get('error') or line.data.get('detail') or name}")
        self._lines = len(lines)
        succeeded = {str(line.data.get("step")): line.data for line in lines if line.event == "step-succeeded"}
        done = succeeded.keys()
        for each in steps:
            if each.action.name in _MOVES and each.name in done - self._said_changes:
                self._say_changes(each, str(succeeded[each.name].get("left") or ""))
        for each in steps:
            if each.action.name in ("groups.verify", "wave.verify"):
                self._say_seen(each.name)
            elif each.action.name == "reverse.wait" and each.name not in done:
                self._say_catching_up(each.name)

    def _say_changes(self, step: Step, left: str) -> None:
        """Of a wave what its own groups have to change: those of later ones are not to move yet. `left`: why the pointer was
        not moved."""
        from drlib.config.settings import load_mirror_settings
        from drlib.drill.actions.groups import decided
        from drlib.drill.actions.groups.share_groups import move as share_moves
        from drlib.drill.actions.groups.verify import VerifyGroups
        from drlib.drill.actions.waves.move import MoveWave
        from drlib.drill.actions.waves.switchover import MoveWaveApplications
        from drlib.drill.assessment.moved_applications import changes
        from drlib.drill.run import planning
        from drlib.ui.terminal import failover as texts

        moves = decided.read(self._folder, self._target) or ()
        shares = share_moves.kept(self._folder, self._target, "groups") or ()
        drill = planning.read(self._folder).drill
        verified = [
            VerifyGroups.parse(each.action, each.name) for each in drill.steps if each.action.name == VerifyGroups.name
        ]
        written = {topic for each in verified for topic in each.written}
        if step.action.name in _WAVES:
            kind = MoveWave if step.action.name == MoveWave.name else MoveWaveApplications
            plan = kind.parse(step.action, step.name).plan
            ours = plan.groups_here({move.group for move in moves} | {move.group for move in shares})
            moves = tuple(move for move in moves if move.group in ours)
            shares = tuple(move for move in shares if move.group in ours)
            written = set(plan.wave.written)
        settings = load_mirror_settings(self._file)
        bootstrap = ",".join(settings.clusters[self._target].bootstrap_servers)
        back = _mirror_of(settings, drill.flow, self._target)
        groups, producers = changes(moves, bootstrap, back, shares=shares, written=written)
        self._said_changes.add(step.name)
        if self._json:
            write_document(texts.changes_json(groups, producers, self._target) + "\n")
            return
        for line in texts.change_lines(groups, producers, self._target, left):
            self._progress.note(line)

    def _say_catching_up(self, step: str) -> None:
        from drlib.drill.step.step_output import read_rows
        from drlib.ui.terminal import failover as texts

        if time.monotonic() - self._said_s < _SAY_S or not (rows := read_rows(self._folder, step)):
            return
        self._said_s = time.monotonic()
        if self._json:
            write_document(texts.catching_up_json(rows[0]) + "\n")
        else:
            self._progress.note(texts.catching_up_line(rows[0]))

    def _say_seen(self, step: str) -> None:
        from drlib.drill.step.step_output import read_rows
        from drlib.ui.terminal import failover as texts

        for row in read_rows(self._folder, step):
            key = row.get("kind"), row.get("name")
            if self._seen.get(key) == row.get("seen"):
                continue
            self._seen[key] = row.get("seen")
            if self._json:
                write_document(texts.seen_json(row) + "\n")
            else:
                self._progress.note(texts.seen_line(row))


def _mirror_of(settings: MirrorSettings, flow: Flow, target: str) -> Callable[[str], str] | None:
    """On the way back to `target`, the source of `flow`: the names of the mirrors there; else None."""
    if target != flow.source:
        return None
    policy = settings.flow(flow.target, target).policy
    return lambda topic: policy.remote_topic(flow.target, topic)


def _journaled(folder: Path) -> int:
    """How many lines the journal has: what failed before is no news of a run that is continued."""
    from drlib.runs import journal
    from drlib.runs.journal import JOURNAL

    try:
        return len(journal.read(folder / JOURNAL))
    except (DrlibError, OSError, ValueError):  # there is none yet
        return 0
