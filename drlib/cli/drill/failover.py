"""`drlib failover`: assess, ask for the cluster's name, run the runbook of an emergency, and follow it on one screen.

Rules: nothing is changed before the target's name was given. What is done is the runbook's, by `drlib run`'s own code: this
module chooses it, and shows the run as its folder tells it. A failover that was interrupted is continued; one that is done is
not done again. With `--json` standard output has one JSON document a line; progress is on standard error.
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib.cli.drill.run import Screen
from drlib.errors import ApprovalMissing, DrlibError, ObjectiveMissed, ReadinessError, Unreachable, UsageError
from drlib.formats import one_line
from drlib.outgoing.terminal import show, write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.drill.assessment.assessment import Assessment
    from drlib.model import Flow
    from drlib.runbook.execution.execute import Listener, RunResult
    from drlib.runbook.file.model import Runbook
    from drlib.runbook.introduce import Introduction
    from drlib.ui.terminal.run import Progress

SHIPPED: Final = "emergency-failover.yaml"
_SOURCES: Final = Path(__file__).parents[3] / "runbooks"  # of a source tree
_LOOK_S: Final = 0.3
_UNCHANGED: Final = "nothing was changed"


def failover(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[
        str, typer.Argument(help="The flow, e.g. 'paris->lyon'. Default: the only enabled one.", metavar="FLOW")
    ] = "",
    yes: Annotated[
        str, typer.Option(metavar="CLUSTER", help="The name of the cluster to move to, instead of typing it.")
    ] = "",
    runbook: Annotated[
        Path | None,
        typer.Option(
            help="The runbook, or a folder with failover.yaml. Default: runbooks/ beside FILE, else the shipped one.",
            metavar="PATH",
        ),
    ] = None,
    force_reason: Annotated[
        str, typer.Option(help="Fail over against the advice, for this reason.", metavar="REASON")
    ] = "",
    fault_at: Annotated[
        str, typer.Option(help="When the source failed, such as 2026-11-21T03:12:05Z.", metavar="TIME")
    ] = "",
    supersede: Annotated[
        str, typer.Option(help="Give up this unfinished run of the flow, and begin.", metavar="RUN")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """The source is down: say what a failover costs, ask for the target's name, move the applications there, watch them return.

    Interrupted or repeated, it continues where it was. Exit codes are those of drlib run; 3: it is advised against, 9: not
    confirmed.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.assessment.assessment import Next, assess
    from drlib.drill.assessment.observe import observe
    from drlib.extras import require
    from drlib.lab import choose_flow
    from drlib.ui.terminal import failover as texts

    require("notebooks", "drlib failover")
    settings = load_mirror_settings(file)
    chosen = choose_flow.of_file(settings, flow, f"drlib failover {shlex.quote(str(file))}", name_it="'{}'")
    book = _emergency(_runbook(runbook, file, chosen.source, chosen.target), chosen)
    if yes:
        _refuse_other_name(yes, chosen.target)
    made = assess(
        observe(
            settings,
            chosen,
            runs_dir,
            supersede=Path(supersede).name,
            force_reason=force_reason,
            creates_topics=book.drill is not None and any(s.action == "topics.create" for s in book.drill.steps),
        )
    )
    if as_json:
        write_document(texts.assessment_json(made) + "\n")
    else:
        plain_console().print(texts.render_assessment(made))
    if made.next is Next.NOTHING:
        if not as_json:
            _show_next(made, file)
        else:
            write_document(
                texts.result_json({"verdict": None, "exit_code": 0, "run": made.run, "why": made.why}) + "\n"
            )
        return
    _refuse(made)
    _confirm(made, yes)
    raise typer.Exit(_carry_out(made, book, file, runs_dir, supersede, force_reason, fault_at, as_json=as_json))


def _runbook(given: Path | None, file: Path, source: str, target: str) -> Path:
    """The runbook to run: the one that was given, of the folder that was given, beside `file`, or the shipped one."""
    from drlib.runbook import open_drill as opening

    if given is not None and not given.is_dir():
        return given
    names = ("failover.yaml", f"failover-{source}-{target}.yaml".lower())
    folder = given or file.absolute().parent / "runbooks"
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is not None:
        return found
    places = [folder / SHIPPED] if given else [opening.find(SHIPPED.removesuffix(".yaml")), _SOURCES / SHIPPED]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UsageError(
            "there is no runbook to fail over with",
            f"none of {', '.join(names)} is in {folder}, and {SHIPPED} is not found",
            "Give one: --runbook PATH.",
        )
    return found


def _emergency(path: Path, flow: Flow) -> Runbook:
    """The runbook at `path`, which has to be one of an emergency, for `flow` or for any."""
    from drlib.drill.plan.plan import Mode
    from drlib.model import Flow
    from drlib.runbook.file import drill_section, model

    book = model.load(path)
    if book.drill is None or book.drill.mode != Mode.EMERGENCY:
        raise UsageError(f"runbook {path}", "it is not one of an emergency", "Run it with drlib run, or give another.")
    if drill_section.asked_flow(book.drill, {}) is None and Flow.parse(book.drill.flow) != flow:
        raise UsageError(
            f"runbook {path}",
            f"it is for {book.drill.flow}, not for {flow}",
            "Give the one of this flow: --runbook PATH.",
        )
    return book


def _refuse(made: Assessment) -> None:
    """Raises what stands in the way of a failover."""
    from drlib.drill.assessment.assessment import Next

    if made.next is Next.SUPERSEDE_FIRST:
        raise UsageError(f"{made.flow} has an unfinished run", made.why, made.remedy)
    if made.next is not Next.REFUSE:
        return
    what = f"{made.flow} is not failed over, {_UNCHANGED}"
    if not made.target_answers:
        raise Unreachable(what, made.why, made.remedy)
    hint = f"{made.remedy} Against the advice: --force-reason REASON." if made.target_serves else made.remedy
    raise ReadinessError(what, made.why, hint)


def _confirm(made: Assessment, yes: str) -> None:
    """Raises `UsageError` for another name, `ApprovalMissing` without a terminal to ask at."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ApprovalMissing(
            f"{made.flow} is not failed over, {_UNCHANGED}",
            "the target's name was not confirmed",
            f"Give --yes {made.target}.",
        )
    typed = typer.prompt(f"Type {made.target} to move the applications there", err=True)
    _refuse_other_name(typed, made.target)


def _refuse_other_name(given: str, target: str) -> None:
    if given != target:
        raise UsageError(
            f"nothing is moved to {target}, {_UNCHANGED}", f"'{given}' was given to confirm it", f"Give {target}."
        )


def _carry_out(
    made: Assessment,
    book: Runbook,
    file: Path,
    runs_dir: Path,
    supersede: str,
    force_reason: str,
    fault_at: str,
    *,
    as_json: bool,
) -> int:
    """Begin or continue the run; returns its exit code. The name that was given approves every step that waits for it."""
    from drlib.cli.drill import run as running
    from drlib.drill.assessment.assessment import Gate, Next
    from drlib.drill.run import planning
    from drlib.drill.run.request import ClusterTarget
    from drlib.runbook import plans as drills
    from drlib.runbook.file import drill_section
    from drlib.runbook.plans import Granted

    screen = FailoverScreen(made, file, as_json=as_json)
    if made.next is Next.CONTINUE and made.unfinished is not None:
        folder, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
        steps = planning.read(folder).drill.steps
        return running.resume(folder, asked, Granted(tuple(s.name for s in steps if s.approval)), screen)
    assert book.drill is not None
    given = {"force_reason": force_reason, "fault_at": fault_at}
    pairs = [f"{name}={value}" for name, value in given.items() if value]
    if drill_section.asked_flow(book.drill, {}) is not None:
        pairs.append(f"flow={made.flow}")
    approved = tuple(step.name for step in book.drill.steps if step.approval)
    skip = force_reason if force_reason and made.gate is Gate.CLOSED else None
    granted = Granted(approved, skip_gate=skip, supersede=Path(supersede).name)
    return running.run_runbook(
        book.file, pairs, running.Wanted(runs_dir, target=ClusterTarget(file), granted=granted), screen
    )


class FailoverScreen(Screen):
    """The run as its folder tells it: each step, what applications have to change, and which of them are back."""

    def __init__(self, made: Assessment, file: Path, *, as_json: bool) -> None:
        self._made, self._file, self._json = made, file, as_json

    def introduce(self, run: Introduction) -> None:
        if not self._json:
            super().introduce(run)

    @contextmanager
    def following(self, folder: Path | None, progress: Progress) -> Iterator[Listener]:
        if folder is None:
            with super().following(folder, progress) as tell:
                yield tell
            return
        follower = Follower(folder, self._made.target, self._file, progress, as_json=self._json)
        progress.stage("starting the run's notebook")
        follower.start()
        try:
            yield lambda step, share: None
        finally:
            follower.close()

    def result(self, result: RunResult) -> int:
        from drlib.runbook import plans as drills
        from drlib.ui.terminal import failover as texts

        if not self._json:
            code = super().result(result)
            if code in (0, ObjectiveMissed.exit_code):  # every step is done
                _show_next(self._made, self._file)
            elif drills.unfinished(result.folder):
                again = shlex.join(["drlib", "failover", str(self._file), self._made.flow])
                show(f"Or repeat it, after a new assessment: {again}", error=True)
            return code
        card = result.scorecard
        values = {
            "verdict": card.verdict.value,
            "exit_code": result.exit_code,
            "run": str(result.folder),
            "report": str(result.report),
            "rto_seconds": card.rto_seconds.total,
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
        self._seen: dict[tuple[object, object], object] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="failover-follower", daemon=True)

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
        if not self._said_changes and any(s.name in done for s in steps if s.action.name == "pointer.move"):
            self._say_changes()
        for each in steps:
            if each.action.name == "groups.verify":
                self._say_seen(each.name)

    def _say_changes(self) -> None:
        from drlib.config.settings import load_mirror_settings
        from drlib.drill.actions.groups import decided
        from drlib.drill.assessment.moved_applications import changes
        from drlib.ui.terminal import failover as texts

        moves = decided.read(self._folder, self._target) or ()
        bootstrap = ",".join(load_mirror_settings(self._file).clusters[self._target].bootstrap_servers)
        groups, producers = changes(moves, bootstrap)
        self._said_changes = True
        if self._json:
            write_document(texts.changes_json(groups, producers, self._target) + "\n")
            return
        for line in texts.change_lines(groups, producers, self._target):
            self._progress.note(line)

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


def _show_next(made: Assessment, file: Path) -> None:
    from drlib.ui.terminal import failover as texts

    for line in texts.next_lines(made.source, made.target, str(file)):
        show(one_line(line))
