"""`drlib schedule`: print a scheduler's file that runs a runbook regularly. Not for: installing it."""

from pathlib import Path
from typing import Annotated

import typer

from drlib.errors import UsageError
from drlib.outgoing.terminal import write_document
from drlib.runbook.file import clusters, model, schedule
from drlib.runbook.file.find import find

schedule_app = typer.Typer(help="Run a runbook regularly.", no_args_is_help=True, add_completion=False)


@schedule_app.callback()
def group() -> None:
    """Run a runbook regularly."""


@schedule_app.command("emit")
def emit(
    runbook: Annotated[Path, typer.Argument(help="A file of runbooks/.", metavar="RUNBOOK")],
    file: Annotated[
        Path | None, typer.Argument(help="The connect-mirror-maker.properties file it runs on.", metavar="FILE")
    ] = None,
    *,
    scheduler: Annotated[schedule.Scheduler, typer.Option("--as", help="Which scheduler the file is for.")],
    runs_dir: Annotated[Path, typer.Option(help="The folder in which run folders are created.")] = Path("runs"),
    lab: Annotated[bool, typer.Option("--lab", help="Run it on its own lab.")] = False,
    user: Annotated[
        str | None, typer.Option(help="Who runs it, for cron and systemd; you, and for root it has to be given.")
    ] = None,
) -> None:
    """Print a scheduler's file that runs RUNBOOK by its `schedule`. Installs nothing."""
    if lab and file is not None:
        raise UsageError("FILE and --lab", "a runbook runs on one of them", "Give only one.")
    more = ["--lab"] if lab else [str(file.absolute())] if file is not None else []
    book = model.load(find(runbook))
    from drlib.kafka.java_formats import references

    refers = book.model_dump_json()
    if file is not None:
        from drlib.kafka.java_formats import properties

        # its references are those of who runs it
        refers += references.declared_text(properties.read(file))
    variables = references.variables(refers)
    text = schedule.emit(book, scheduler, runs_dir=runs_dir, more=more, user=user, variables=variables)
    if not more and clusters.unnamed(book, {}):
        ways = "FILE, or --lab for clusters of its own" if clusters.has_own_lab(book) else "FILE"
        raise UsageError(f"runbook {book.name}", "it needs clusters, and none were given", f"Give {ways}.")
    write_document(text)
