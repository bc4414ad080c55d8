"""`drlib failback`: assess, ask what becomes of unreplicated records and for the cluster's name, then run the way back.

Rules: nothing is changed before the source's name was given. What is done are the runbooks' steps, by `drlib run`'s own code:
first `reprotect`, then `fail-back`, each where the flow's state has it left. A run that was interrupted is continued; a way
back that is done is not done again. With `--json` standard output has one JSON document a line; progress is on standard error.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib.cli.drill.confirmation import (
    UNCHANGED,
    ask,
    choose_runbook,
    confirm,
    other_flow,
    refuse_other_name,
    refuse_other_options,
)
from drlib.errors import ApprovalMissing, ObjectiveMissed, ReadinessError, Unreachable, UsageError
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.outgoing.terminal import can_ask, show, write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.cli.drill.followed_run import FailbackScreen
    from drlib.config.settings import MirrorSettings
    from drlib.drill.assessment.returning import ReturnAssessment, Stage
    from drlib.model import Flow
    from drlib.runbook.file.model import Runbook

NOTHING_TO_SETTLE: Final = (
    Settle.QUARANTINE
)  # of no record; one that is written after all is kept, and no topic changes


def failback(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[
        str,
        typer.Argument(
            help="The flow that failed over, e.g. 'paris->lyon'. Default: the only one that is failed over.",
            metavar="FLOW",
        ),
    ] = "",
    yes: Annotated[
        str, typer.Option(metavar="CLUSTER", help="The name of the cluster to return to, instead of typing it.")
    ] = "",
    tail: Annotated[
        Settle | None,
        typer.Option(help="What becomes of records that only that cluster has.", metavar="recover|quarantine|leave"),
    ] = None,
    runbooks: Annotated[
        Path | None,
        typer.Option(
            help="A folder with reprotect.yaml and fail-back.yaml. Default: runbooks/ beside FILE, else the shipped ones.",
            metavar="FOLDER",
        ),
    ] = None,
    supersede: Annotated[
        str, typer.Option(help="Give up this unfinished run of the flow, and begin.", metavar="RUN")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """The failed cluster is back: settle what only it has, mirror back, move the applications home, watch them return.

    Interrupted or repeated, it continues where it was. Exit codes are those of drlib run; 3: it cannot be done now, with the
    reason, 9: not confirmed.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.extras import require
    from drlib.runs import folder as folders

    require("notebooks", "drlib failback")
    settings = load_mirror_settings(file)
    folders.refuse_unusable(runs_dir)
    from drlib.cli.drill.followed_run import FailbackScreen
    from drlib.cli.drill.run import terminal_progress
    from drlib.drill.assessment.assessment import Next
    from drlib.drill.assessment.observe_return import observe_return
    from drlib.drill.assessment.returning import Stage, assess_return
    from drlib.ui.terminal import failover as texts

    chosen = _choose(settings, file, flow)
    books = {stage: _book(runbooks, file, chosen, stage) for stage in Stage}
    if yes:
        refuse_other_name(yes, chosen.source)
    with terminal_progress() as progress:
        progress.stage(f"asking {chosen.source} and {chosen.target}, and reading what only {chosen.source} has")
        made = assess_return(observe_return(settings, chosen, runs_dir, supersede=Path(supersede).name))
    begun = _begun(made, runs_dir)
    if as_json:
        write_document(texts.return_json(made) + "\n")
    else:
        plain_console().print(texts.render_return(made, tail if begun is None else begun.tail))
    if made.next is Next.NOTHING:
        if as_json:
            write_document(_nothing(made))
        return
    _refuse(made)
    if begun is not None:
        _refuse_other_options(made, file, begun, tail, None if runbooks is None else books[made.stages[0]].file)
    pairs = _tail_of(books[Stage.REPROTECT], made, tail, _settling(made, tail)) if made.settles else []
    confirm(made.source, yes, f"{made.flow} is not failed back", "move the applications there")
    screen = FailbackScreen(made, file, as_json=as_json)
    raise typer.Exit(_carry_out(made, books, file, runs_dir, pairs, supersede, screen, settings, chosen))


def _choose(settings: MirrorSettings, file: Path, flow: str) -> Flow:
    """The flow that was asked for, else the only one that is failed over, else the only enabled one. Raises `UsageError`."""
    from drlib.drill.assessment.observe_return import failed_over_flows
    from drlib.lab import choose_flow

    enabled = [each.flow for each in settings.enabled_flows]
    if not flow.strip() and len(enabled) > 1:
        away = failed_over_flows(settings, enabled)
        if len(away) == 1:
            return away[0]
    from drlib.config.both_ways.shared_topics import refuse_partly_shared

    command = f"drlib failback {shlex.quote(str(file))}"
    chosen = choose_flow.of_file(settings, flow, command, name_it="'{}'")
    refuse_partly_shared(settings, chosen, f"{chosen} cannot be failed back")
    return chosen


def _book(given: Path | None, file: Path, flow: Flow, stage: Stage) -> Runbook:
    """The runbook of one stage, which has to carry it out for `flow`."""
    from drlib.runbook.file import model

    path = choose_runbook(given, file, flow, stage.value, f"{stage.value}.yaml", stage.value.replace("-", " "))
    book = model.load(path)
    if book.drill is None or book.drill.activity.value != stage.value:
        raise UsageError(f"runbook {path}", f"its activity is not {stage.value}", "Give another folder: --runbooks.")
    if other := other_flow(book, flow):
        raise UsageError(
            f"runbook {path}",
            f"it is for {other}, not for {flow}",
            "Give the folder of this flow: --runbooks.",
        )
    return book


def _nothing(made: ReturnAssessment) -> str:
    from drlib.ui.terminal import failover as texts

    return texts.result_json({"verdict": None, "exit_code": 0, "run": made.run, "why": made.why}) + "\n"


def _refuse(made: ReturnAssessment) -> None:
    """Raises what stands in the way."""
    from drlib.drill.assessment.assessment import Next

    if made.next is Next.SUPERSEDE_FIRST:
        raise UsageError(f"{made.flow} has an unfinished run", made.why, made.remedy)
    if made.next is Next.REFUSE:
        kind = Unreachable if made.unreachable else ReadinessError
        raise kind(f"{made.flow} is not failed back, {UNCHANGED}", made.why, made.remedy)


@dataclass(frozen=True, slots=True)
class _Begun:
    """The run that is continued: its runbook, and what becomes of the unreplicated records by its plan; None: none are settled.
    `held`: a process runs it now."""

    run: str
    runbook: Path
    tail: Settle | None
    held: bool


def _begun(made: ReturnAssessment, runs_dir: Path) -> _Begun | None:
    from drlib.drill.actions.failback.unreplicated_actions import settles_as
    from drlib.drill.assessment.assessment import Next
    from drlib.drill.run import planning
    from drlib.runbook import plans as drills

    if made.next is not Next.CONTINUE or made.unfinished is None:
        return None
    folder, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
    tail = settles_as(planning.read(folder).drill)
    return _Begun(made.unfinished.run, asked.runbook, tail, drills.held_by_executor(folder))


def _refuse_other_options(
    made: ReturnAssessment, file: Path, begun: _Begun, tail: Settle | None, runbook: Path | None
) -> None:
    """Raises `UsageError` for options that the run which is continued was not begun with; not while a process runs it. A
    fail-back settles nothing, so that the choice for the reprotect before it may be given again."""
    from drlib.drill.assessment.returning import Stage

    if begun.held:
        return
    others, chosen = [], []
    if tail is not None and Stage.REPROTECT in made.stages and not made.both_ways:
        chosen.append(f"--tail {tail}")
        others += [(chosen[-1], f"--tail {begun.tail}" if begun.tail else "no --tail")] if tail != begun.tail else []
    if runbook is not None:
        chosen.append(f"--runbooks {shlex.quote(str(runbook.parent))}")
        others += [(chosen[-1], f"runbook {begun.runbook}")] if runbook != begun.runbook else []
    again = f"drlib failback {shlex.quote(str(file))} {shlex.quote(made.flow)} {' '.join(chosen)}"
    refuse_other_options(begun.run, others, again)


def _settling(made: ReturnAssessment, tail: Settle | None) -> Settle:
    """What becomes of the unreplicated records: as was given, or as is typed. Raises `ApprovalMissing` without a terminal,
    `UsageError` for recovering records that the target may have."""
    from drlib.ui.terminal import failover as texts

    if tail is Settle.RECOVER and made.in_doubt:
        raise UsageError(
            f"{made.flow} is not failed back, {UNCHANGED}",
            f"of {made.in_doubt:,} records it is unknown whether {made.target} has them, so they cannot be recovered",
            "Give --tail quarantine, or --tail leave.",
        )
    if tail is not None:
        return tail
    if not made.tail_records:
        return NOTHING_TO_SETTLE
    names = [how.value for how in Settle if how is not Settle.RECOVER or not made.in_doubt]
    if not can_ask():
        raise ApprovalMissing(
            f"{made.flow} is not failed back, {UNCHANGED}",
            f"what becomes of {made.tail_records} records that only {made.source} has was not said",
            f"Give --tail {', '.join(names[:-1])} or {names[-1]}.",
        )
    for line in texts.choices():
        show(line, error=True)
    return Settle(ask(f"What becomes of the records that only {made.source} has", names))


def _carry_out(
    made: ReturnAssessment,
    books: dict[Stage, Runbook],
    file: Path,
    runs_dir: Path,
    settling: list[str],
    supersede: str,
    screen: FailbackScreen,
    settings: MirrorSettings,
    flow: Flow,
) -> int:
    """Run or continue the stages that are left; returns the exit code of the first that does not end well, else of the last.
    The name that was given approves every step that waits for it. `settling`: the parameters of a reprotect."""
    from drlib.cli.drill import run as running
    from drlib.drill.assessment.assessment import Next
    from drlib.drill.assessment.returning import Stage
    from drlib.drill.run import planning
    from drlib.drill.run.request import ClusterTarget
    from drlib.runbook import plans as drills
    from drlib.runbook.file import drill_section
    from drlib.runbook.plans import Granted

    code = 0
    for number, stage in enumerate(made.stages):
        if number == 0 and made.next is Next.CONTINUE and made.unfinished is not None:
            folder, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
            steps = planning.read(folder).drill.steps
            code = running.resume(folder, asked, Granted(tuple(s.name for s in steps if s.approval)), screen)
        else:
            book = books[stage]
            assert book.drill is not None
            pairs = [*settling] if stage is Stage.REPROTECT else []
            if drill_section.asked_flow(book.drill, {}) is not None:
                pairs.append(f"flow={made.flow}")
            approved = tuple(step.name for step in book.drill.steps if step.approval)
            granted = Granted(approved, supersede=Path(supersede).name if number == 0 else "")
            wanted = running.Wanted(runs_dir, target=ClusterTarget(file), granted=granted)
            code = running.run_runbook(book.file, pairs, wanted, screen)
        if code not in (0, ObjectiveMissed.exit_code) or (code and stage is Stage.REPROTECT):
            return code
    screen.protected(settings, flow)
    return code


def _tail_of(book: Runbook, made: ReturnAssessment, tail: Settle | None, how: Settle) -> list[str]:
    """The parameter that says what becomes of the unreplicated records, `how`; also where there is none yet, as records may be
    written until the fence. Raises `UsageError` where the runbook fixes it, and there are such records or `tail` was given."""
    if "tail" in book.parameters:
        return [f"tail={how}"]
    if tail is None and not made.tail_records:
        return []
    raise UsageError(
        f"--tail {how}",
        f"runbook {book.file} has no parameter `tail`, so it fixes what becomes of the records",
        'Write `tail` into its parameters and `how: "${tail}"` into its step, or run it by drlib run.',
    )
