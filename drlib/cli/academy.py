"""`drlib academy`: shows and resets the progress of a learner."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from drlib.errors import UsageError
from drlib.outgoing.terminal import show
from drlib.ui.terminal.plain_console import plain_console

academy_app = typer.Typer(help="Lessons on a lab: notebooks/academy.", no_args_is_help=True, add_completion=False)
Record = Annotated[Path, typer.Option("--dir", help="Folder of progress.json: the lessons' run_dir.")]
RUN_DIR = Path("runs") / "academy"


@academy_app.command("status")
def status(directory: Record = RUN_DIR) -> None:
    """Show each lesson: its state, attempts, hints, and points of this attempt and of the best one."""
    from drlib.training.academy import points, progress
    from drlib.training.academy.open import LESSONS, title_of

    _refuse_file(directory)
    stored = progress.read(directory)
    table = Table()
    for name in ("lesson", "title", "state", "attempts", "hints", "points", "best"):
        table.add_column(name, justify="right" if name in {"attempts", "hints", "points", "best"} else "left")
    for key in LESSONS:
        record = stored.of(key)
        attempt = None if record.current is None or record.current.dry else record.current
        table.add_row(
            key,
            title_of(key),
            points.describe(record),
            str(record.attempts or ""),
            str(len(attempt.hints)) if attempt else "",
            str(points.total(attempt)) if attempt else "",
            str(record.best) if record.best is not None else "",
        )
    console = plain_console()
    console.print(table)
    best = [stored.of(key).best or 0 for key in LESSONS]
    console.print(f"{sum(best)} of {points.FULL * len(best)} points.")


@academy_app.command("reset")
def reset(
    lesson: Annotated[
        list[str] | None, typer.Argument(help="L0 to L8. Default: all lessons.", metavar="LESSON...")
    ] = None,
    directory: Record = RUN_DIR,
) -> None:
    """Delete the progress and points of lessons; the next opening starts them from the beginning. Clusters are unchanged."""
    from drlib.training.academy import progress
    from drlib.training.academy.open import LESSONS

    names = tuple(name.upper() for name in lesson or ())
    if unknown := [name for name in names if name not in LESSONS]:
        raise UsageError(
            f"there is no lesson {', '.join(unknown)}", f"there are {', '.join(LESSONS)}", "Use one of these names."
        )
    _refuse_file(directory)
    deleted = progress.forget(directory, names)
    show(f"Deleted: {', '.join(sorted(deleted)) or 'nothing, there was no progress'}.")


def _refuse_file(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a folder", "progress is kept in one", "Name it: --dir DIR.")
