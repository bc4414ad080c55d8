"""The drill's report: one HTML file that needs nothing else, not even a network.

Rules: as in `page`; lists are bounded and the rest is counted; the file appears whole or not at all, readable by its owner
only. The verdict comes first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib import formats
from drlib.files import write_whole
from drlib.lab.environment import banner_of
from drlib.runs.journal import Line
from drlib.runs.scorecard import Kind, Scorecard
from drlib.ui import severity, words
from drlib.ui.figures import figures
from drlib.ui.report.digests import NAME, digests
from drlib.ui.report.notebook_cells import read_cells
from drlib.ui.report.page import Drawings, render_page
from drlib.ui.report.timeline import MOST_LINES, moments

MOST_LOST: Final = 50
PRINTED: Final = 15  # rows of one table on paper, where the whole report has less than eight pages
PRINTED_LAG: Final = 60
PRINTED_LOST: Final = 5
PRINTED_CHECKS: Final = 20


def write_report(card: Scorecard, journal: Sequence[Line], folder: Path, *, notebook: Path | None) -> Path:
    """Write `folder`/report.html and return its path.

    Raises `UnreadableNotebook` when `notebook` is none, OSError when the folder cannot be written or read.
    """
    page = render(card, journal, digests(folder), notebook)
    path = folder / NAME
    write_whole(path, page.encode())
    return path


def render(
    card: Scorecard, journal: Sequence[Line], files: Sequence[tuple[str, int, str]], notebook: Path | None
) -> str:
    """The page. `files` are (name, bytes, SHA-256)."""
    drawings = Drawings()
    timeline = tuple(moments(journal))
    return render_page(
        "report.html.j2",
        drawings,
        card=card,
        words=words,
        banner=banner_of(card.environment),
        drill=card.kind is Kind.DRILL,
        sections=_sections(card),
        counts=_counts(card),
        verdict=words.VERDICTS[card.verdict],
        open_rows=severity.open_rows(card),
        passed=[row for row in severity.rows(card) if row.state is severity.State.PASS],
        printed=PRINTED,
        printed_lag=PRINTED_LAG,
        printed_lost=PRINTED_LOST,
        printed_checks=PRINTED_CHECKS,
        lag_bounded=any(each.records_at_least is not None for each in card.lag),
        duration=(card.finished_ms - card.started_ms) / 1000 if card.started_ms and card.finished_ms else None,
        stages=[(name, meaning, getattr(card.rto_seconds, name)) for name, meaning in words.STAGES.items()],
        timed=any(getattr(card.rto_seconds, name) is not None for name in words.STAGES),
        **({} if card.kind is Kind.ANALYSIS else _pictures(card, drawings)),
        bounded=any(p.basis or p.at_most_seconds is not None for p in card.partitions),
        lost=card.lost_examples[:MOST_LOST],
        lost_rest=_rest(card),
        timeline=timeline[:MOST_LINES],
        timeline_rest=max(0, len(timeline) - MOST_LINES),
        last_hash=journal[-1].hash if journal else None,
        cells=read_cells(notebook) if notebook is not None else (),
        notebook=notebook.name if notebook is not None else None,
        files=files,
    )


SECTIONS: Final = {
    "checks": "Checks",
    "rto": "Recovery time",
    "rpo": "Records",
    "groups": "Groups",
    "clients": "Clients",
    "lost": "Lost records",
    "partitions": "Partitions",
    "lag": "Lag",
    "timeline": "Timeline",
    "environment": "Environment",
    "files": "Files",
}
_OF_DRILLS: Final = ("rto", "groups", "lost", "partitions", "timeline")


def _sections(card: Scorecard) -> list[tuple[str, str]]:
    """The page's sections, as (id, name); without those that a run of its kind does not have."""
    optional = {"lag": card.lag, "clients": card.clients}
    absent = {*(() if card.kind is Kind.DRILL else _OF_DRILLS), *(name for name, rows in optional.items() if not rows)}
    return [(name, text) for name, text in SECTIONS.items() if name not in absent]


def _counts(card: Scorecard) -> list[tuple[str, str]]:
    """The record counts, as (what, how many); an analysis shows those it was asked for."""
    counts = {
        "Produced": card.records.produced,
        "Mirrored": card.records.mirrored,
        "Lost": card.records.lost,
        "Duplicated": card.records.duplicated,
        "Out of order": card.records.out_of_order,
    }
    drill = card.kind is Kind.DRILL
    return [(name, formats.count(n)) for name, n in counts.items() if drill or n is not None]


def _pictures(card: Scorecard, drawings: Drawings) -> dict[str, str]:
    """The ids of a drill's pictures."""
    return {
        "rto": drawings.add(figures.rto_figure(card)),
        "traffic": drawings.add(figures.traffic_figure(card)),
        "partitions": drawings.add(figures.partitions_figure(card)),
    }


def _rest(card: Scorecard) -> int | None:
    """How many lost records are not listed; None when they were not counted."""
    if card.records.lost is None:
        return None
    return max(card.records.lost, len(card.lost_examples)) - min(len(card.lost_examples), MOST_LOST)
