"""`drlib academy`: how far a learner has come, and beginning anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from drlib.errors import UsageError

academy_app = typer.Typer(help="Lessons on a lab: notebooks/academy.", no_args_is_help=True)
Record = Annotated[Path, typer.Option("--dir", help="Where progress.json is: the lessons' run_dir.")]
RUN_DIR = Path("runs") / "academy"


@academy_app.command("status")
def status(directory: Record = RUN_DIR) -> None:
    """Each lesson: where you are, how often you tried it, hints taken, points now and at best."""
    from drlib.training.academy import points, progress
    from drlib.training.academy.open import LESSONS, title_of

    found = progress.read(directory)
    table = Table()
    for name in ("lesson", "what it is about", "state", "tries", "hints", "points", "best"):
        table.add_column(name, justify="right" if name in {"tries", "hints", "points", "best"} else "left")
    for key in LESSONS:
        standing = found.of(key)
        attempt = None if standing.current is None or standing.current.dry else standing.current
        table.add_row(
            key,
            title_of(key),
            points.describe(standing),
            str(standing.attempts or ""),
            str(len(attempt.hints)) if attempt else "",
            str(points.total(attempt)) if attempt else "",
            str(standing.best) if standing.best is not None else "",
        )
    console = Console()
    console.print(table)
    best = [found.of(key).best or 0 for key in LESSONS]
    console.print(f"{sum(best)} of {points.FULL * len(best)} points.", highlight=False)


@academy_app.command("reset")
def reset(
    lesson: Annotated[
        list[str] | None, typer.Argument(help="L0 to L6; all of them unless named.", metavar="LESSON...")
    ] = None,
    directory: Record = RUN_DIR,
) -> None:
    """Forget lessons: their next opening begins them anew, and their points are gone. Clusters are not touched."""
    from drlib.training.academy import progress
    from drlib.training.academy.open import LESSONS

    names = tuple(name.upper() for name in lesson or ())
    if strange := [name for name in names if name not in LESSONS]:
        raise UsageError(
            f"there is no lesson {', '.join(strange)}", f"there are {', '.join(LESSONS)}", "Name one of them."
        )
    gone = progress.forget(directory, names)
    print(f"Forgotten: {', '.join(sorted(gone)) or 'nothing was there'}.")
