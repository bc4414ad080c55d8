"""`drlib plan`, `drlib run`, `drlib abort`: what a drill would change, doing it, taking it up again, and stopping it.

Rules: what was read is what is done: a plan is run by its hash and refused when reality has moved. `--dry-run` and `plan`
touch no cluster. Nothing is asked while it runs: approvals and cluster IDs are flags, or a line in a file. Where a run
stands is said with the command that goes on from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from drlib.errors import UsageError

if TYPE_CHECKING:
    from drlib.runbook.plans import Place

ABORT_WAIT_S = 60.0
RunsDir = Annotated[Path, typer.Option(help="Where run folders are made.")]
Parameters = Annotated[list[str] | None, typer.Option("-p", "--parameter", help="NAME=VALUE")]
LabDir = Annotated[Path | None, typer.Option("--lab-dir", help="A lab that runs: its folder.", metavar="DIR")]
File = Annotated[
    Path | None, typer.Argument(help="A connect-mirror-maker.properties file, for your own clusters.", metavar="FILE")
]
RUNS = Path("runs")


def plan(
    runbook: Annotated[Path, typer.Argument(help="A file of runbooks/ that has a drill.", metavar="RUNBOOK")],
    file: File = None,
    parameter: Parameters = None,
    lab_dir: LabDir = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Say what each step of RUNBOOK would change, and keep it as a plan with a hash. Changes nothing on any cluster."""
    from drlib.drill.run import planning
    from drlib.runbook import plans as drills
    from drlib.runbook.file import model, parameters
    from drlib.runbook.plans import Place
    from drlib.ui.terminal.plan import plan_of

    book = model.load(runbook)
    given = parameters.parse(parameter or [], parameters.declared(book.notebook))
    kept = drills.keep(book, given, _somewhere(drills.placed(Place(file, lab_dir), given)), runs_dir=runs_dir)
    made = planning.read(kept)
    out = Console(highlight=False)
    out.print(plan_of(made))
    elsewhere = "" if runs_dir == RUNS else f" --runs-dir {runs_dir}"
    out.print(f"\nRun it: drlib run --plan {made.hash[: drills.DIGITS]}{elsewhere}", soft_wrap=True, markup=False)


def run(
    runbook: Annotated[Path | None, typer.Argument(help="A file of runbooks/.", metavar="RUNBOOK")] = None,
    file: File = None,
    parameter: Parameters = None,
    lab: Annotated[bool, typer.Option("--lab", help="Start the lab for it, and stop it afterwards.")] = False,
    lab_dir: LabDir = None,
    runs_dir: RunsDir = RUNS,
    plan_hash: Annotated[
        str | None,
        typer.Option("--plan", help="Run the plan with this hash: 12 digits of it, or more.", metavar="HASH"),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Take up a run that was killed, paused or left.", metavar="RUN")
    ] = None,
    rollback: Annotated[
        Path | None, typer.Option("--rollback", help="Put back what a run left in place.", metavar="RUN")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; keep nothing, change nothing.")] = False,
    approve: Annotated[
        list[str] | None, typer.Option(help="Approve this step; repeat for more.", metavar="STEP")
    ] = None,
    cluster_id: Annotated[
        list[str] | None,
        typer.Option(help="The ID of a cluster where something may be destroyed; repeat for more.", metavar="ID"),
    ] = None,
    skip_gate: Annotated[
        str | None,
        typer.Option(help="Why the readiness gate is passed over; in an emergency only.", metavar="REASON"),
    ] = None,
) -> None:
    """Execute a runbook: its notebook through papermill, with verdict, scorecard and report.

    RUNBOOK, or a plan that was made of it (--plan), or a run that was begun (--resume, --rollback): one of them.
    """
    from drlib.cli.drill import run as running
    from drlib.runbook import plans as drills
    from drlib.runbook.file import model, parameters
    from drlib.runbook.plans import Granted, Place

    place = Place(file, lab_dir)
    granted = Granted(tuple(approve or ()), tuple(cluster_id or ()), skip_gate)
    kept = [name for name, value in (("--plan", plan_hash), ("--resume", resume), ("--rollback", rollback)) if value]
    _refuse_mixture(kept, runbook, bool(parameter or lab or place != Place() or dry_run))
    if plan_hash:
        folder = drills.by_hash(runs_dir, plan_hash)
        folder, asked = drills.run_of(runs_dir, folder)
        if runbook is not None and model.load(runbook).file != asked.runbook:
            raise UsageError(
                f"plan {plan_hash}", f"it is of {asked.runbook.name} and not of {runbook.name}", "Leave RUNBOOK out."
            )
        raise typer.Exit(running.run_plan(folder, asked, granted))
    if resume is not None:
        raise typer.Exit(running.resume(*drills.run_of(runs_dir, resume), granted))
    if rollback is not None:
        folder, asked = drills.run_of(runs_dir, rollback)
        drills.roll_back(folder, asked, granted)
        print(f"{folder.name} was rolled back. Nothing of it stands.")
        return
    if runbook is None:
        raise UsageError("nothing to run", "no RUNBOOK, plan or run was given", "See: drlib run --help.")
    if lab and place != Place():
        raise UsageError("--lab", "it starts clusters of its own", "Leave FILE and --lab-dir out.")
    if dry_run:
        from drlib.ui.terminal.plan import plan_of

        if lab:
            raise UsageError("--dry-run --lab", "a new lab is empty", "Give a lab that runs: --lab-dir DIR.")
        book = model.load(runbook)
        given = parameters.parse(parameter or [], parameters.declared(book.notebook))
        made = drills.look(book, given, _somewhere(drills.placed(place, given)))
        drills.refuse_unknown(made.drill.name, made.drill.steps, granted.approved)
        Console(highlight=False).print(plan_of(made))
        return
    wanted = running.Wanted(runs_dir, lab, place, granted)
    raise typer.Exit(running.run_runbook(runbook, parameter or [], wanted))


def abort(
    run_folder: Annotated[Path, typer.Argument(help="A run's folder, or its name.", metavar="RUN")],
    runs_dir: RunsDir = RUNS,
    wait: Annotated[float, typer.Option(help="Seconds to wait for its end.", min=0)] = ABORT_WAIT_S,
) -> None:
    """Stop a run and have it rolled back as its strategy says. Works from any terminal of the same user."""
    from drlib.drill.run import outcome as endings
    from drlib.runbook import plans as drills

    folder, _ = drills.run_of(runs_dir, run_folder)
    ending, seconds = drills.abort(folder, wait)
    if ending is None:
        print(f"{folder.name} was asked to stop and has not ended. See: drlib run --rollback {folder}")
        return
    stands = f"; in place: {', '.join(ending.standing)}" if ending.standing else "; nothing of it stands"
    print(f"{folder.name} {endings.said(ending)} after {seconds:.1f} s{stands}.")


def _refuse_mixture(kept: list[str], runbook: Path | None, more: bool) -> None:
    if len(kept) > 1:
        raise UsageError(" and ".join(kept), "only one of them can be meant", "Give one.")
    if kept and (more or (runbook is not None and kept != ["--plan"])):
        raise UsageError(
            kept[0], "what it is run with was said when it was planned", "Leave everything else out, or plan anew."
        )


def _somewhere(place: Place) -> Place:
    if place.properties is None and place.lab_dir is None:
        raise UsageError(
            "no clusters were given", "a plan compares with what is there", "Give FILE, or a lab: --lab-dir DIR."
        )
    return place
