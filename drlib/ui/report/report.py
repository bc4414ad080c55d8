"""The drill's report: one HTML file that needs nothing else, not even a network.

Rules: as in `page`; lists are bounded and the rest is counted; the file appears whole or not at all, readable by its owner
only. The verdict comes first. A section that nothing was measured for is left out: that it was not is said once, with the
verdict.
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
    shown = _sections(card)
    return render_page(
        "report.html.j2",
        drawings,
        card=card,
        words=words,
        banner=banner_of(card.environment),
        drill=card.kind is Kind.DRILL,
        sections=_anchors(card, shown),
        shown=shown,
        counted=_counted(card),
        measured=_measured(card),
        figures=figures,
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
        timed=_has_stages(card),
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
_APPENDIX: Final = ("timeline", "environment", "files")
_OF_DRILLS: Final = ("rto", "groups", "lost", "partitions", "timeline")


def _sections(card: Scorecard) -> list[str]:
    """The ids of the page's sections; without those that a run of its kind does not have, or has nothing for."""
    drill, counted = card.kind is Kind.DRILL, _counted(card)
    present = {
        "rto": _timed(card),
        "rpo": counted or not drill or card.rpo.measured or bool(card.samples or card.marks),
        "lost": counted or bool(card.lost_examples),
        "partitions": bool(card.partitions),
        "lag": bool(card.lag),
        "clients": bool(card.clients),
    }
    absent = {*(() if drill else _OF_DRILLS), *(name for name, has in present.items() if not has)}
    return [name for name in SECTIONS if name not in absent]


def _timed(card: Scorecard) -> bool:
    """Did the drill measure a recovery time, or was it to?"""
    return _has_stages(card) or card.rto_seconds.total is not None or card.objectives.rto_seconds is not None


def _has_stages(card: Scorecard) -> bool:
    return any(getattr(card.rto_seconds, name) is not None for name in words.STAGES)


def _counted(card: Scorecard) -> bool:
    """Did the run count records?"""
    return card.kind is Kind.ANALYSIS or any(n is not None for n in card.records.model_dump().values())


def _measured(card: Scorecard) -> bool:
    """Has the drill a figure to show, or an objective that it could not be compared with?"""
    aims = card.objectives
    objective = not (aims.rto_seconds is None and aims.rpo_records is None and aims.rpo_seconds is None)
    return _timed(card) or _counted(card) or card.rpo.measured or objective


def _anchors(card: Scorecard, shown: Sequence[str]) -> list[tuple[str, str]]:
    """The page's sections as (id, name), with the tables that steps keep before the appendix."""
    found = [(name, SECTIONS[name]) for name in shown]
    tables = [(f"table-{number}", each.title) for number, each in enumerate(card.tables, 1)]
    at = next(number for number, (name, _) in enumerate(found) if name in _APPENDIX)
    return [*found[:at], *tables, *found[at:]]


def _counts(card: Scorecard) -> list[tuple[str, str]]:
    """The record counts, as (what, how many); an analysis shows those it was asked for."""
    counts = {
        "Acknowledged" if card.kind is Kind.DRILL else "Produced": card.records.produced,
        "Mirrored": card.records.mirrored,
        "Lost": card.records.lost,
        "Duplicated": card.records.duplicated,
        "Out of order": card.records.out_of_order,
    }
    drill = card.kind is Kind.DRILL
    return [(name, formats.count(n)) for name, n in counts.items() if drill or n is not None]


def _rest(card: Scorecard) -> int | None:
    """How many lost records are not listed; None when they were not counted."""
    if card.records.lost is None:
        return None
    return max(card.records.lost, len(card.lost_examples)) - min(len(card.lost_examples), MOST_LOST)
