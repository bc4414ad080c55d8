"""`drlib evidence`: the drills of a year as one package for an audit, made from verified runs alone."""

from pathlib import Path
from typing import Annotated

import typer

from drlib import clock, formats
from drlib.errors import ReadinessError
from drlib.outgoing.terminal import show


def evidence(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    *,
    year: Annotated[int, typer.Option(help="The year, UTC.", min=2000, max=9998)],
    runs_dir: Annotated[Path, typer.Option(help="The folder of run folders.")] = Path("runs"),
    runbooks: Annotated[
        Path | None,
        typer.Option(help="The folder of runbooks, to find overdue ones. Default: runbooks, if it is there."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The package's folder; evidence-YEAR by default.")
    ] = None,
) -> None:
    """Write evidence of a year's drills on the flows of FILE: JSON, Markdown, and the hashes of runs and reports.

    It has what DORA (Regulation (EU) 2022/2554) Articles 11, 12, 24 and 25 and NIS2 Article 21(2)(c) call for, as far as runs
    have it; what is missing is listed. No cluster is asked. Exit code 0: every run is as it was written, and every flow has a
    drill with a verdict; 3: a run was changed or is not complete, or a flow has no such drill; 2: FILE or a folder cannot be
    used.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.lab.environment import environment_of
    from drlib.runbook.evidence import folder
    from drlib.runbook.evidence.rules import Scope
    from drlib.runbook.file import find, model
    from drlib.runs.check import Verdict

    settings = load_mirror_settings(file)
    books = [model.load(path) for path in find.in_folder(runbooks)]
    scope = Scope(
        year,
        tuple(str(each.flow) for each in settings.enabled_flows),
        environment_of(settings).value,
        {book.name: book.schedule.due_hours for book in books if book.schedule is not None},
        clock.now_ms(),
    )
    package = folder.collect(runs_dir, scope)
    where = folder.write(package, out or Path(f"evidence-{year}"))
    drills = sum(each.drills for each in package.systems)
    show(formats.one_line(f"{where}: {package.verdict}; runs: {len(package.runs)}, drills with a verdict: {drills}"))
    for why in package.why:
        show(formats.one_line(f"  {why}"))
    if package.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
        raise ReadinessError(
            f"the evidence of {year} is no proof",
            package.why[0],
            "drlib runs verify lists what differs." if package.unverified else f"Run a drill: drlib run RUNBOOK {file}",
        )
