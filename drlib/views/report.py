"""The drill's report: one HTML file that needs nothing else, not even a network.

Rules: nothing is fetched and the page's own policy forbids it; only two scripts run, named by their SHA-256 (plotly's
library, once, and a few lines that draw the figures' JSON); all text is escaped; lists are bounded and the rest is
counted; the file appears whole or not at all, readable by its owner only. The verdict comes first.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup

from drlib.drill.journal import Line
from drlib.drill.scorecard import Scorecard
from drlib.views import figures, words
from drlib.views.notebook_cells import read_cells
from drlib.views.rich import cell

NAME: Final = "report.html"
MOST_LOST: Final = 50
MOST_LINES: Final = 500
NOT_HASHED: Final = frozenset({NAME, "manifest.sha256"})  # written after, or together with, this page


@dataclass(frozen=True, slots=True)
class Moment:
    """One row of the timeline. `after` is seconds since the first, None when a time cannot be read."""

    at: str
    after: float | None
    step: str
    what: str


@dataclass
class Drawings:
    """The page's figures; `add` gives the id of the element that one is drawn in."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, figure: go.Figure | Mapping[str, object]) -> str:
        name = f"figure-{len(self.found) + 1}"
        text = figure.to_json() if isinstance(figure, go.Figure) else json.dumps(figure)
        self.found[name] = text
        return name

    def as_json(self) -> Markup:
        """All of them as one JSON object that no script element can be closed by."""
        text = "{" + ",".join(f'"{name}":{figure}' for name, figure in self.found.items()) + "}"
        return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def write_report(card: Scorecard, journal: Sequence[Line], folder: Path, *, notebook: Path | None) -> Path:
    """Write `folder`/report.html and return its path.

    Raises `UnreadableNotebook` when `notebook` is none, OSError when the folder cannot be written or read.
    """
    page = render(card, journal, digests(folder), notebook)
    path = folder / NAME
    _replace(path, page.encode())
    return path


def render(
    card: Scorecard, journal: Sequence[Line], files: Sequence[tuple[str, int, str]], notebook: Path | None
) -> str:
    """The page. `files` are (name, bytes, SHA-256)."""
    drawings = Drawings()
    library, draw = _plotly(), _source("draw.js")
    timeline = tuple(moments(journal))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            card=card,
            words=words,
            verdict=words.VERDICTS[card.verdict],
            duration=(card.finished_ms - card.started_ms) / 1000 if card.started_ms and card.finished_ms else None,
            stages=[(name, what, getattr(card.rto_seconds, name)) for name, what in words.STAGES.items()],
            rto=drawings.add(figures.rto_figure(card)),
            traffic=drawings.add(figures.traffic_figure(card)),
            partitions=drawings.add(figures.partitions_figure(card)),
            lost=card.lost_examples[:MOST_LOST],
            lost_rest=_rest(card),
            timeline=timeline[:MOST_LINES],
            timeline_rest=max(0, len(timeline) - MOST_LINES),
            last_hash=journal[-1].hash if journal else None,
            cells=read_cells(notebook) if notebook is not None else (),
            notebook=notebook.name if notebook is not None else None,
            files=files,
            drawings=drawings,
            library=Markup(library),
            draw=Markup(draw),
            style=Markup(_source("report.css")),
            script_sources=" ".join(f"'sha256-{_sha256(script)}'" for script in (library, draw)),
        )
    )


def moments(journal: Sequence[Line]) -> Iterator[Moment]:
    """The journal's lines as a timeline: when, how long after the first, which step, what."""
    first: datetime | None = None
    for line in journal:
        try:
            at = datetime.fromisoformat(line.at)
        except ValueError:
            yield Moment(line.at, None, *_told(line))
            continue
        first = first or at
        clock = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
        yield Moment(clock, (at - first).total_seconds(), *_told(line))


def digests(folder: Path) -> tuple[tuple[str, int, str], ...]:
    """(name, bytes, SHA-256) of each file beside the report, by name; hidden files and links are left out."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name in NOT_HASHED or path.name.startswith(".") or path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            found.append((path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()))
    return tuple(found)


def _told(line: Line) -> tuple[str, str]:
    """The step and the rest of a line, in words."""
    data = dict(line.data)
    step = str(data.pop("step", "") or "")
    told = ", ".join(
        f"{key} {cell(value) if value is None or isinstance(value, bool) else value}" for key, value in data.items()
    )
    return (step, f"{line.event}: {told}" if told else line.event) if step else (line.event, told)


def _rest(card: Scorecard) -> int | None:
    """How many lost records are not listed; None when nobody counted them."""
    if card.records.lost is None:
        return None
    return max(card.records.lost, len(card.lost_examples)) - min(len(card.lost_examples), MOST_LOST)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("drlib.views"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    """A file beside the template, as it stands."""
    loader = jinja2.PackageLoader("drlib.views")
    return loader.get_source(_environment(), name)[0].strip() + "\n"


@cache
def _plotly() -> str:
    """plotly's library. Line ends as an HTML parser reads them, so that its hash is the one the browser computes."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one move; a reader sees the old file or the new one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
