"""`drlib runs`: past runs, plans that were not run, whether runs can be relied on, and overdue runbooks.

Rules: the newest run comes first, under the name by which other commands take it. JSON lists runs as they were made.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib import clock, formats
from drlib.cli.runs.report import report
from drlib.errors import DrlibError, ReadinessError, UsageError
from drlib.outgoing.terminal import show

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from drlib.drill.run.stored_run import StoredRun
    from drlib.runbook.file.model import Runbook
    from drlib.runbook.history import PastRun
    from drlib.runbook.history_rules import Standing, Trend

RunsDir = Annotated[Path, typer.Option(help="The folder of run folders.")]
runs_app = typer.Typer(invoke_without_command=True, add_completion=False)
runs_app.command("report")(report)
File = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]


@runs_app.callback()
def runs(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    runs_dir: RunsDir = Path("runs"),
    runbooks: Annotated[
        Path | None,
        typer.Option(help="The folder of runbooks, to find overdue ones. Default: runbooks, if it is there."),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many of the newest runs to list.", min=1)] = 20,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with code 3 when a runbook is overdue, its last run failed, is unknown or is not verified, or there is "
            "nothing to check.",
        ),
    ] = False,
) -> None:
    """List past runs with verdict, RTO and RPO, their trend, and runbooks that are overdue by their schedule.

    The verdict of a run whose folder is not complete, or contradicts itself, is unknown: drlib runs verify.
    """
    if context.invoked_subcommand is not None:
        return
    from drlib.drill.run.stored_run import Evidence
    from drlib.runbook import history
    from drlib.runbook.file import find, model
    from drlib.runs.check import Verdict
    from drlib.runs.verdict import ahead
    from drlib.ui.terminal.plain_console import plain_console

    past = history.read_runs(runs_dir)
    books = {book.name: book for book in (model.load(path) for path in find.in_folder(runbooks))}
    now_ms = clock.now_ms()
    begun = [run for run in past if run.stored.plan_hash is None]
    names = sorted({run.outcome.runbook for run in begun} | {n for n, book in books.items() if book.schedule})
    standings = [_standing(name, books.get(name), begun, now_ms) for name in names]
    if as_json:
        runs = [{**asdict(r.outcome), **_evidence(r.stored)} for r in past[-limit:]]
        show(json.dumps({"runs": runs, "runbooks": [asdict(stand) for stand in standings]}, indent=2))
    else:
        console = plain_console()
        plans = [run for run in past if run.stored.plan_hash is not None]
        newest = begun[-limit:][::-1]
        console.print(_runs(newest) if newest else f"No run in {runs_dir}.")
        for run in (each for each in newest if each.stored.why):
            name = run.outcome.run
            console.print(formats.one_line(f"{name}: {run.outcome.verdict}, {run.stored.why.replace(f'{name}: ', '')}"))
        if plans:
            console.print(_plans(plans[-limit:][::-1]), "Run one: drlib run --plan HASH", sep="\n")
        if standings:
            console.print(_stands(standings))
    # the last is the newest whose time is known
    in_order = sorted(past, key=lambda run: not ahead(run.outcome.started_ms, now_ms))
    ended = {r.outcome.runbook: r.outcome.verdict for r in in_order if r.stored.evidence is not Evidence.PENDING}
    missed = [s.runbook for s in standings if s.overdue or ended.get(s.runbook) in (Verdict.FAIL, Verdict.UNKNOWN)]
    if check and not standings:
        raise ReadinessError(
            "nothing was checked",
            f"{runs_dir} has no run, and {runbooks or 'runbooks'} no runbook with a schedule",
            "Name the folders: --runs-dir, --runbooks.",
        )
    if check and missed:
        raise ReadinessError(
            f"{', '.join(missed)}: due to run",
            "it is overdue, or its last run failed, is unknown or is not verified",
            _remedy(missed, books, past),
        )


@runs_app.command("verify")
def verify(
    run: Annotated[list[Path] | None, typer.Argument(help="Run folders, or their names.", metavar="RUN...")] = None,
    runs_dir: RunsDir = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare each file of runs with the manifest, and scorecard, journal and plan with each other.

    Without RUN, all runs. Exit code 0: every run is verified; 3: one contradicts itself or is not complete, and each file
    says why, or there is none; 2: no such run. A run that has not ended fails only where it is named. A manifest has no
    key: who may write to the folder can write a new one, so keep a copy elsewhere as evidence.
    """
    from drlib.drill.run.stored_run import Evidence
    from drlib.runbook import history

    stored = [history.find(runs_dir, name) for name in run or ()] or [
        past.stored for past in history.read_runs(runs_dir)
    ]
    if as_json:
        show(json.dumps([_evidence(each) for each in stored], indent=2))
    else:
        for each in stored:
            show(formats.one_line(f"{each.folder.name}: {each.evidence}"))
            for difference in each.differences:
                show(formats.one_line(f"  {difference}"))
    if not stored:
        raise ReadinessError("nothing was verified", f"{runs_dir} has no run", "Name the folder: --runs-dir.")
    failing = {Evidence.CONTRADICTORY, Evidence.INCOMPLETE, *([Evidence.PENDING] if run else [])}
    failed = [each.folder.name for each in stored if each.evidence in failing]
    if failed:
        raise ReadinessError(
            f"{len(failed)} of {len(stored)} runs not verified",
            ", ".join(failed[:3]) + ("" if len(failed) <= 3 else ", ..."),
            "Compare with a copy, or run the drill again.",
        )


def _evidence(run: StoredRun) -> dict[str, object]:
    return {
        "folder": str(run.folder),
        "evidence": run.evidence.value,
        "problem": run.why,
        "plan_hash": run.plan_hash,
        "differences": [asdict(each) for each in run.differences],
    }


def _remedy(missed: Sequence[str], books: Mapping[str, Runbook], past: tuple[PastRun, ...]) -> str:
    """What to do about the first one that may be run at any time; where all move applications, read why the last run of one
    did not pass: to run it again would move them."""
    newest = {run.outcome.runbook: run for run in past}
    for name in missed:
        if name not in newest or not _moves_applications(newest[name]):
            return f"Run it: {_again(name, books.get(name), past)}"
    return f"It moves applications, so read why first: drlib runs report {shlex.quote(newest[missed[0]].outcome.run)}"


def _moves_applications(run: PastRun) -> bool:
    """Was it a drill on a company's clusters that is no practice? Not known is no."""
    from drlib.drill.plan.plan import Mode
    from drlib.drill.run import request
    from drlib.runbook.file import model

    with suppress(DrlibError, OSError):
        asked = request.find(run.stored.folder)
        if asked is not None and asked.properties is not None:
            drill = model.load(asked.runbook).drill
            return drill is not None and drill.mode != Mode.PRACTICE
    return False


def _again(name: str, book: Runbook | None, past: tuple[PastRun, ...]) -> str:
    """The command line that runs the runbook as it ran last; as it has to be run, where no folder of a run says that."""
    from drlib.drill.run import request
    from drlib.runbook.file import clusters, find, model

    by_name = find.find(name)
    if book is None and find.is_there(by_name):
        book = model.load(by_name)
    same = book is None or by_name.absolute() == book.file.absolute()
    typed = name if same or book is None else str(book.file)
    for run in reversed(past):
        if run.outcome.runbook == name:
            with suppress(UsageError):
                if (asked := request.find(run.stored.folder)) is not None:
                    return asked.again(typed)
    if book is None or not clusters.unnamed(book, {}):
        return f"drlib run {shlex.quote(typed)}"
    return f"drlib run {shlex.quote(typed)} FILE" + (
        ", or --lab in place of FILE" if clusters.has_own_lab(book) else ""
    )


def _standing(name: str, book: Runbook | None, past: list[PastRun], now_ms: int) -> Standing:
    from drlib.runbook.history_rules import standing

    every = book.schedule.due_hours if book is not None and book.schedule is not None else None
    return standing(name, [run.outcome for run in past], every_hours=every, now_ms=now_ms)


def _runs(newest: list[PastRun]) -> Table:
    from rich.table import Table

    table = Table(title="Runs, newest first", title_justify="left")
    for name in ("run", "verdict", "RTO s", "RPO records", "RPO s"):
        justify: JustifyMethod = "right" if name.startswith("R") else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name == "run")  # a name is copied as a whole
    for run in newest:
        outcome = run.outcome
        table.add_row(
            formats.one_line(outcome.run),
            formats.one_line(outcome.verdict),
            "-" if outcome.rto_seconds is None else f"{outcome.rto_seconds:.2f}",
            "-" if outcome.rpo_records is None else f"{outcome.rpo_records:,}",
            "-" if outcome.rpo_seconds is None else f"{outcome.rpo_seconds:.2f}",
        )
    return table


def _plans(newest: list[PastRun]) -> Table:
    from rich.table import Table

    from drlib.runbook.plans import DIGITS

    table = Table(title="Plans that were not run, newest first", title_justify="left")
    for name in ("plan", "hash"):
        table.add_column(name, overflow="fold")
    for run in newest:
        table.add_row(formats.one_line(run.outcome.run), formats.one_line((run.stored.plan_hash or "unknown")[:DIGITS]))
    return table


def _stands(standings: list[Standing]) -> Table:
    from rich.table import Table

    table = Table(title="Runbooks", title_justify="left")
    for name in ("runbook", "runs", "last verdict", "RTO trend", "RPO trend", "next due, UTC"):
        table.add_column(
            name, justify="right" if name == "runs" else "left", overflow="fold", no_wrap=name == "runbook"
        )
    for each in standings:
        last = each.last.verdict if each.last is not None else "never run"
        table.add_row(
            formats.one_line(each.runbook), str(each.runs), last, _trend(each.rto), _trend(each.rpo), _due(each)
        )
    return table


def _due(item: Standing) -> Text:
    from rich.text import Text

    if item.due_ms is None:
        return Text("no schedule", style="dim")
    if item.overdue:
        since = "never run" if item.due_ms == 0 else f"since {formats.utc(item.due_ms):%Y-%m-%d %H:%M}"
        return Text(f"OVERDUE, {since}", style="red")
    return Text(f"{formats.utc(item.due_ms):%Y-%m-%d %H:%M}")


def _trend(trend: Trend) -> str:
    from drlib.runbook.history_rules import Direction

    if trend.direction is Direction.UNKNOWN:
        return "-"
    return trend.direction.value if trend.change is None else f"{trend.direction.value} ({trend.change:+.0%})"


@runs_app.command("settle")
def settle(
    file: File,
    flow: Annotated[str, typer.Option(help="The flow, e.g. 'paris->lyon'.")],
    serves: Annotated[str, typer.Option(help="The cluster that serves the applications now.", metavar="CLUSTER")],
) -> None:
    """Declare which cluster serves, where applications were moved without drlib. An unfinished run is superseded."""
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.session.declare_serving import declare_serving
    from drlib.model import Flow

    settings, of = load_mirror_settings(file), Flow.parse(flow)
    record = declare_serving(settings.clusters[settings.flow(of.source, of.target).flow.target], of, serves)
    show(f"{of} is {record.state}: {serves} serves.")
