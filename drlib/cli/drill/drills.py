"""`drlib plan`, `drlib run`, `drlib abort`: plan a drill, run it, resume it, roll it back, and stop it.

Rules: a plan is run by its hash and refused when the clusters have changed since. `--dry-run` and `plan` change no cluster.
Only the clusters' file is asked for, on a terminal and before anything begins: approvals and cluster IDs are options, or a
line in a file. Every message about an unfinished run names the command that continues it. What is wrong with the command line
is said before what runs a runbook is loaded, and before a lab is started.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.errors import DrlibError, UsageError
from drlib.outgoing.terminal import can_ask, show
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drlib.drill.run.request import ClusterTarget
    from drlib.lab.environment import Environment
    from drlib.runbook.file.model import Runbook, Value

ABORT_WAIT_S = 60.0
RunsDir = Annotated[Path, typer.Option(help="Each run has a folder here, with its report.", metavar="DIR")]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        help="A parameter of the runbook, which its file and its notebook list; repeat for more.",
        metavar="NAME=VALUE",
    ),
]
LabDir = Annotated[
    Path | None, typer.Option("--lab-dir", help="The folder of a lab that runs (drlib lab up).", metavar="DIR")
]
File = Annotated[
    Path | None, typer.Argument(help="Your clusters: their connect-mirror-maker.properties file.", metavar="FILE")
]
RUNS = Path("runs")
_USUAL = "connect-mirror-maker.properties"


def plan(
    runbook: Annotated[Path, typer.Argument(help="A runbook with a drill: its file or its name.", metavar="RUNBOOK")],
    file: File = None,
    parameter: Parameters = None,
    lab_dir: LabDir = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Show what each step of RUNBOOK would change, and save it as a plan with a hash. Changes nothing on any cluster."""
    from drlib.runbook.file.find import find, refuse_missing

    refuse_missing(find(runbook))
    from drlib.drill.run.request import ClusterTarget
    from drlib.runs import folder as folders

    book, arguments = _asked(runbook, parameter, file)
    _refuse_analysis(book, runbook, file)
    folders.refuse_unusable(runs_dir)
    target = _clusters(book, runbook, arguments, ClusterTarget(file, lab_dir), "plan")
    from drlib.drill.run import planning
    from drlib.runbook import plans as drills
    from drlib.ui.terminal.plan import plan_of

    target = _somewhere(drills.targeted(target, arguments))
    kept = drills.keep(book, arguments, target, runs_dir=runs_dir)
    made = planning.read(kept)
    out = plain_console()
    out.print(plan_of(made, _environment(target)))
    elsewhere = "" if runs_dir == RUNS else f" --runs-dir {runs_dir}"
    out.print(f"\nRun it: drlib run --plan {made.hash[: drills.DIGITS]}{elsewhere}", soft_wrap=True)


def run(
    runbook: Annotated[
        Path | None,
        typer.Argument(help="Its file, or its name; drlib run without it lists the names.", metavar="RUNBOOK"),
    ] = None,
    file: File = None,
    parameter: Parameters = None,
    lab: Annotated[
        bool,
        typer.Option(
            "--lab",
            help="Start Kafka clusters on this machine for this run, and stop them afterwards.",
        ),
    ] = False,
    secured: Annotated[
        bool, typer.Option("--secured", help="With --lab: clusters with TLS, a login and ACLs.")
    ] = False,
    brokers: Annotated[int, typer.Option(help="With --lab: brokers of each cluster.", min=1, max=3, metavar="N")] = 1,
    lab_dir: LabDir = None,
    runs_dir: RunsDir = RUNS,
    plan_hash: Annotated[
        str | None,
        typer.Option(
            "--plan", help="Run the saved plan with this hash; its first 12 digits are enough.", metavar="HASH"
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", help="Resume a run that was killed, paused or left unfinished.", metavar="RUN"),
    ] = None,
    rollback: Annotated[
        Path | None, typer.Option("--rollback", help="Undo what a run changed and has not undone.", metavar="RUN")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would change; change and keep nothing.")
    ] = False,
    approve: Annotated[
        list[str] | None,
        typer.Option(help="Approve this step, where its runbook asks for that; repeat for more.", metavar="STEP"),
    ] = None,
    cluster_id: Annotated[
        list[str] | None,
        typer.Option(
            help="Confirm the cluster of a destructive step; the refusal has its ID. Repeat for more.", metavar="ID"
        ),
    ] = None,
    skip_gate: Annotated[
        str | None,
        typer.Option(help="In an emergency: begin although drlib doctor finds the flow not ready.", metavar="REASON"),
    ] = None,
    supersede: Annotated[
        str | None,
        typer.Option(
            help="Begin although this less urgent run is unfinished: it is stopped for good, and its changes stay.",
            metavar="RUN",
        ),
    ] = None,
) -> None:
    """Run a runbook, a drill or an analysis, and end with a verdict and a report.

    Give RUNBOOK and its clusters (FILE, --lab or --lab-dir), a saved plan (--plan), or an unfinished run (--resume or
    --rollback). Ctrl-C and drlib abort stop it, and undo it as its runbook says.

    Exit code 0: passed; 3: not ready, nothing was changed; 4: the clusters were not as the drill expects, nothing was changed;
    5: failed, and rolled back; 6: a check failed, or changes remain; 7: an objective was missed; 8: stopped; 9: waits for an
    approval; 10: another run has the flow; 11: a cluster does not answer; 12: the plan is out of date.
    """
    from drlib.runbook.file import find

    if runbook is not None:
        find.refuse_missing(find.find(runbook))
    from drlib.drill.run.request import ClusterTarget
    from drlib.extras import require
    from drlib.runbook.file import model
    from drlib.runs import folder as folders

    require("notebooks", "drlib run")
    target = ClusterTarget(file, lab_dir)
    kept = [name for name, value in (("--plan", plan_hash), ("--resume", resume), ("--rollback", rollback)) if value]
    if (secured or brokers > 1) and not lab:
        raise UsageError("--secured and --brokers", "they are for clusters that --lab starts", "Give --lab as well.")
    _refuse_mixture(kept, runbook, bool(parameter or lab or target != ClusterTarget() or dry_run))
    if runbook is None and not kept:
        raise UsageError(
            "there is nothing to run",
            f"no runbook was given; there are {', '.join(find.known()) or 'none'}",
            "For example: drlib run failover-drill --lab",
        )
    if lab and target != ClusterTarget():
        raise UsageError("--lab", "it starts its own clusters", "Leave FILE and --lab-dir out.")
    if dry_run and lab:
        raise UsageError(
            "--dry-run --lab",
            "a new lab is empty, so there is nothing to plan for",
            "Give a running lab: --lab-dir DIR.",
        )
    if runbook is not None and not kept:
        try:
            book, arguments = _asked(runbook, parameter, file)
            if dry_run:
                _refuse_analysis(book, runbook, file)
            folders.refuse_unusable(runs_dir)
            target = (
                target if lab else _clusters(book, runbook, arguments, target, "run --dry-run" if dry_run else "run")
            )
        except DrlibError as refused:
            if not dry_run and not can_ask():
                _alert(runbook, refused)
            raise
    from drlib.cli.drill import run as running
    from drlib.runbook import plans as drills
    from drlib.runbook.plans import Granted

    granted = Granted(tuple(approve or ()), tuple(cluster_id or ()), skip_gate, Path(supersede or "").name)
    if plan_hash:
        folder = drills.by_hash(runs_dir, plan_hash)
        folder, asked = drills.run_of(runs_dir, folder)
        if runbook is not None and model.load(find.find(runbook)).file != asked.runbook:
            raise UsageError(
                f"plan {plan_hash}",
                f"it is a plan of {asked.runbook.name}, not of {runbook.name}",
                "Leave RUNBOOK out.",
            )
        raise typer.Exit(running.run_plan(folder, asked, granted))
    if resume is not None:
        raise typer.Exit(running.resume(*drills.run_of(runs_dir, resume), granted))
    if rollback is not None:
        folder, asked = drills.run_of(runs_dir, rollback)
        drills.roll_back(folder, asked, granted)
        show(f"{folder.name} was rolled back: everything it changed is undone.")
        return
    if dry_run:
        from drlib.ui.terminal.plan import plan_of

        target = _somewhere(drills.targeted(target, arguments))
        made = drills.look(book, arguments, target)
        drills.refuse_unknown(made.drill.name, made.drill.steps, granted.approved)
        plain_console().print(plan_of(made, _environment(target)))
        return
    wanted = running.Wanted(runs_dir, lab, target, granted, running.LabShape(brokers, secured))
    raise typer.Exit(running.run_runbook(book.file, parameter or [], wanted))


def _alert(runbook: Path, refused: DrlibError) -> None:
    """Send the runbook's alert, if it has one, that a run which no person watches was refused."""
    from drlib.runbook.file import model
    from drlib.runbook.file.find import find

    book = None
    with suppress(DrlibError):  # what is wrong with the runbook itself is `refused`
        book = model.load(find(runbook))
    if book is not None and book.alert is not None:
        from drlib.cli.drill import run as running

        running.alert_refused(book, refused)


def _asked(runbook: Path, pairs: list[str] | None, file: Path | None) -> tuple[Runbook, Mapping[str, Value]]:
    """The runbook and the parameters that were given. Raises `UsageError` for what is wrong with them, or with `file`."""
    from drlib.runbook.file import model, parameters
    from drlib.runbook.file.find import find

    book = model.load(find(runbook))
    arguments = parameters.parse(pairs or [], parameters.declared(book.notebook))
    if file is not None:
        from drlib.config.settings import load_mirror_settings

        load_mirror_settings(file)
    return book, arguments


def _refuse_analysis(book: Runbook, typed: Path, file: Path | None) -> None:
    """Raises `UsageError` for a runbook that has no drill: there is nothing to plan."""
    if book.drill is None:
        raise UsageError(
            f"runbook {book.name}",
            "it has no drill, so there is nothing to plan",
            f"Run it: {shlex.join(['drlib', 'run', str(typed), str(file or _USUAL)])}",
        )


def _clusters(
    book: Runbook, typed: Path, arguments: Mapping[str, Value], target: ClusterTarget, command: str
) -> ClusterTarget:
    """`target`, or the file that is given at the terminal where the runbook needs one and nothing names its clusters.

    Raises `UsageError` with the command to type where there is no terminal, and where a lab of its own would do as well.
    """
    from drlib.drill.run.request import ClusterTarget
    from drlib.runbook.file import clusters

    if target != ClusterTarget() or not clusters.unnamed(book, arguments):
        return target
    line = f"drlib {command} {shlex.quote(str(typed))}"
    on_file = f"{line} {_USUAL}"
    own_lab = clusters.has_own_lab(book)
    if own_lab or not clusters.takes_file(book) or not can_ask():
        ways = [on_file] if clusters.takes_file(book) else []
        ways += [f"{line} --lab (clusters of its own)"] if own_lab and command == "run" else []
        raise UsageError(
            f"runbook {book.name}",
            "it needs clusters, and none were given",
            f"For example: {', or '.join([*ways, f'{line} --lab-dir DIR (a running lab)'])}",
        )
    usual = Path(_USUAL)
    given = Path(
        typer.prompt(
            "The clusters: which connect-mirror-maker.properties file?",
            default=str(usual) if usual.is_file() else None,
            prompt_suffix=" ",
            err=True,
        )
    )
    _asked(book.file, None, given)
    return ClusterTarget(given)


def abort(
    run_folder: Annotated[Path | None, typer.Argument(help="A run's folder, or its name.", metavar="RUN")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every run of the folder of runs that a process executes.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    wait: Annotated[float, typer.Option(help="Seconds to wait until it has ended.", min=0)] = ABORT_WAIT_S,
) -> None:
    """Stop a run, or all runs; they are rolled back as their strategies say. Works from any terminal of the same user."""
    from drlib.runbook import plans as drills

    if every == (run_folder is not None):
        raise UsageError("abort", "one run is stopped, or all of them", "Give RUN, or --all.")
    if run_folder is not None:
        _abort_one(drills.run_of(runs_dir, run_folder)[0], wait)
        return
    folders = drills.executed(runs_dir)
    drills.ask_to_stop(folders)
    if not folders:
        show(f"No process executes a run of {runs_dir}.")
    for folder in folders:
        try:
            _abort_one(folder, wait)
        except UsageError as error:  # it ended meanwhile
            show(f"{folder.name}: {error.why}.")


def _abort_one(folder: Path, wait: float) -> None:
    from drlib.drill.plan.progress import Outcome
    from drlib.drill.run import outcome as endings
    from drlib.drill.run import request
    from drlib.runbook import plans as drills

    ending, seconds = drills.abort(folder, wait)
    if ending is None:
        show(f"{folder.name} was asked to stop and has not ended yet. {request.ways_on(folder).undo_sentence}")
        return
    if not ending.standing:
        show(f"{folder.name} {endings.describe(ending)} after {seconds:.1f} s; everything it changed is undone.")
        return
    if ending.outcome is Outcome.PASSED:
        show(f"{folder.name} {endings.describe(ending)} after {seconds:.1f} s, before the abort took effect.")
        return
    show(f"{folder.name} {endings.describe(ending)} after {seconds:.1f} s. Not undone: {', '.join(ending.standing)}.")
    show("\n".join(request.ways_on(folder).lines()))


def _refuse_mixture(kept: list[str], runbook: Path | None, more: bool) -> None:
    if len(kept) > 1:
        raise UsageError(" and ".join(kept), "they cannot be combined", "Give one of them.")
    if kept and (more or (runbook is not None and kept != ["--plan"])):
        raise UsageError(
            kept[0], "runbook, parameters and clusters are those of the plan", "Leave them out, or make a new plan."
        )


def _environment(target: ClusterTarget) -> Environment | None:
    from drlib.lab.environment import environment_at

    return environment_at(target.properties, lab=target.lab_dir is not None)


def _somewhere(target: ClusterTarget) -> ClusterTarget:
    if target.properties is None and target.lab_dir is None:
        raise UsageError(
            "no clusters were given",
            "a plan is made for clusters that run",
            "Give FILE, or a running lab: --lab-dir DIR.",
        )
    return target
