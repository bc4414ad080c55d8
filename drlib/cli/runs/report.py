"""`drlib runs report`: the report of a finished run on paper, or as Markdown, from its folder.

Rules: a run that is not verified has no report, because nothing that it says can be relied on. Nothing is written into the
run's folder, which is sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib import formats
from drlib.errors import ReadinessError, UsageError
from drlib.outgoing.terminal import show, write_document

if TYPE_CHECKING:
    from drlib.drill.run.stored_run import StoredRun
    from drlib.runs.scorecard import Scorecard


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, or its name.", metavar="RUN")],
    runs_dir: Annotated[Path, typer.Option(help="The folder of run folders.")] = Path("runs"),
    pdf: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Print it on A4 to this file, with a Chromium of this machine.")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="PATH", help="Write it to this file as Markdown.")] = None,
) -> None:
    """Print the report of RUN as Markdown, or write it as a PDF or as Markdown.

    The page itself is report.html in the run's folder. Exit code 0: it was written; 2: there is no such run, or no Chromium for
    --pdf; 3: the run is not verified.
    """
    from drlib.files import write_whole
    from drlib.runbook import history
    from drlib.runs import journal
    from drlib.runs.journal import JOURNAL
    from drlib.ui.report import markdown
    from drlib.ui.report.digests import digests

    stored = history.find(runs_dir, run)
    card = _verified(stored)
    for path in filter(None, (pdf, md)):
        if path.resolve().is_relative_to(stored.folder.resolve()):
            raise UsageError(
                f"{path} is not written", "it is in the run's folder, which is sealed", "Name another path."
            )
    written = stored.folder / JOURNAL
    lines, files = journal.read(written) if written.exists() else (), digests(stored.folder)
    if pdf is not None:
        from drlib.runbook.execution.execute import EXECUTED
        from drlib.ui.report import pdf as paper

        paper.browser()
        from drlib.ui.report.report import render

        notebook = stored.folder / EXECUTED
        html = render(card, lines, files, notebook if notebook.exists() else None)
        with _writing(pdf):
            paper.write_pdf(html, pdf)
    if md is not None:
        with _writing(md):
            write_whole(md, markdown.render(card, lines, files))
    elif pdf is None:
        write_document(markdown.render(card, lines, files))


def _verified(stored: StoredRun) -> Scorecard:
    if stored.scorecard is None:
        why = stored.why or "it has no scorecard"
        raise ReadinessError(
            f"run {stored.folder.name} has no report", why, "drlib runs verify RUN lists what is not as it was written."
        )
    return stored.scorecard


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises `UsageError` where `path` cannot be written; says where it is, once it is."""
    from drlib.runs import folder as folders

    try:
        yield
    except OSError as error:
        raise folders.unwritable(path, error) from error
    show(formats.one_line(f"written: {path}"))
