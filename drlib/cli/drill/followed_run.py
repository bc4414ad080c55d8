"""A run of a failover or of the way back on one screen, as its folder tells it; and the choice and confirmation before it.

Rules: what applications have to change is said once they have moved, and of each application when it is back. With `--json`
standard output has one JSON document a line. The name that was typed is that of the cluster that applications move to.
Not for: what is run, which is the runbook's, by `drlib run`'s own code (`drlib.cli.drill.run`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from drlib.cli.drill.run import Screen
from drlib.errors import ApprovalMissing, DrlibError, UsageError
from drlib.outgoing.terminal import write_document

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings
    from drlib.model import Flow
    from drlib.runbook.execution.execute import Listener, RunResult
    from drlib.runbook.introduce import Introduction
    from drlib.ui.terminal.run import Progress

UNCHANGED: Final = "nothing was changed"
_SOURCES: Final = Path(__file__).parents[3] / "runbooks"  # of a source tree
_LOOK_S: Final = 0.3
_SAY_S: Final = 5.0  # between two lines about a wait
_MOVES: Final = ("pointer.move", "switchover.move")


def choose_runbook(given: Path | None, file: Path, flow: Flow, kind: str, shipped: str, to: str) -> Path:
    """The runbook to run: the one that was given, of the folder that was given, beside `file`, or the shipped one.

    `kind`: the name that `drlib init` gives it. `to`: what it is for, in words. Raises `UsageError` where there is none.
    """
    from drlib.runbook import open_drill as opening

    if given is not None and not given.is_dir():
        return given
    names = (f"{kind}.yaml", f"{kind}-{flow.source}-{flow.target}.yaml".lower())
    folder = given or file.absolute().parent / "runbooks"
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is not None:
        return found
    places = [folder / shipped] if given else [opening.find(shipped.removesuffix(".yaml")), _SOURCES / shipped]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(
            f"there is no runbook to {to} with",
            f"none of {', '.join(names)} is in {folder}, and {shipped} is not found",
            "Give one: --runbook PATH.",
        )
    return found


def confirm(cluster: str, yes: str, what: str, why: str) -> None:
    """Have the name of `cluster` typed, unless `yes` is it. `what`: what is not done otherwise; `why`: what typing it does.

    Raises `UsageError` for another name, `ApprovalMissing` without a terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ApprovalMissing(f"{what}, {UNCHANGED}", "the cluster's name was not confirmed", f"Give --yes {cluster}.")
    refuse_other_name(typer.prompt(f"Type {cluster} to {why}", err=True), cluster)


def refuse_other_name(given: str, cluster: str) -> None:
    """Raises `UsageError`."""
    if given != cluster:
        raise UsageError(
            f"nothing is moved to {cluster}, {UNCHANGED}", f"'{given}' was given to confirm it", f"Give {cluster}."
        )


def ask(question: str, answers: Sequence[str]) -> str:
    """One of `answers`, typed at the terminal. Raises `UsageError` for another."""
    typed = str(typer.prompt(f"{question}: {', '.join(answers)}", err=True)).strip()
    if typed not in answers:
        raise UsageError(UNCHANGED, f"'{typed}' was given", f"Give one of {', '.join(answers)}.")
    return typed


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
            "error": result.error,
        }
        write_document(texts.result_json(values) + "\n")
        return result.exit_code


class Follower:
    """A thread that reads the run's folder and says what is new. It never fails the run: what it cannot read, it says later."""

    def __init__(self, folder: Path, target: str, file: Path, progress: Progress, *, as_json: bool) -> None:
        self._folder, self._target, self._file, self._progress, self._json = folder, target, file, progress, as_json
        self._lines = 0
        self._said_changes = False
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
        for line in lines[self._lines :]:
            name = str(line.data.get("step") or "")
            if line.event == "step-started":
                self._progress.stage(titles.get(name, name))
            elif line.event == "step-failed":
                self._progress.fail()
                self._progress.note(f"failed: {line.data.get('error') or line.data.get('detail') or name}")
        self._lines = len(lines)
        done = {str(line.data.get("step")) for line in lines if line.event == "step-succeeded"}
        if not self._said_changes and any(s.name in done for s in steps if s.action.name in _MOVES):
            self._say_changes()
        for each in steps:
            if each.action.name == "groups.verify":
                self._say_seen(each.name)
            elif each.action.name == "reverse.wait" and each.name not in done:
                self._say_catching_up(each.name)

    def _say_changes(self) -> None:
        from drlib.config.settings import load_mirror_settings
        from drlib.drill.actions.groups import decided
        from drlib.drill.assessment.moved_applications import changes
        from drlib.drill.run import planning
        from drlib.ui.terminal import failover as texts

        moves = decided.read(self._folder, self._target) or ()
        settings, planned = load_mirror_settings(self._file), planning.read(self._folder).drill.flow
        bootstrap = ",".join(settings.clusters[self._target].bootstrap_servers)
        groups, producers = changes(moves, bootstrap, _mirror_of(settings, planned, self._target))
        self._said_changes = True
        if self._json:
            write_document(texts.changes_json(groups, producers, self._target) + "\n")
            return
        for line in texts.change_lines(groups, producers, self._target):
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
