"""What every page of drlib has: one HTML file that needs nothing else, its policy, its style, its scripts and its figures.

Rules: nothing is fetched and the page's own policy forbids it; only two scripts run, named by their SHA-256 (plotly's library,
once, and what draws the figures' JSON); all text is escaped and printable.
Not for: what a page says (`report`, and pages of other packages), which are templates beside this module.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup

from drlib import formats
from drlib.decoding import json_value


@dataclass
class Drawings:
    """The page's figures; `add` returns the id of the element in which a figure is drawn."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, figure: go.Figure | Mapping[str, object]) -> str:
        name = f"figure-{len(self.found) + 1}"
        drawn = json_value(figure.to_json()) if isinstance(figure, go.Figure) else dict(figure)
        self.found[name] = json.dumps(formats.figure_texts(drawn))
        return name

    def as_json(self) -> Markup:
        """All figures as one JSON object that cannot close its script element."""
        text = "{" + ",".join(f'"{name}":{figure}' for name, figure in self.found.items()) + "}"
        return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def render_page(template: str, drawings: Drawings, **values: object) -> str:
    """The page of a template of this package with `values`, and with the figures that it or the template adds to `drawings`."""
    library, draw = _plotly(), _source("draw.js")
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            formats=formats,
            drawings=drawings,
            library=Markup(library),
            draw=Markup(draw),
            style=Markup(_source("report.css")),
            script_sources=" ".join(f"'sha256-{_sha256(script)}'" for script in (library, draw)),
        )
    )


def _printable(value: object) -> object:
    """Text as a reader may see it; HTML, which is made of such, and numbers as they are."""
    return formats.printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("drlib.ui.report"),
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    """A file beside the template, unchanged."""
    loader = jinja2.PackageLoader("drlib.ui.report")
    return loader.get_source(_environment(), name)[0].strip() + "\n"


@cache
def _plotly() -> str:
    """plotly's library. Line ends as an HTML parser reads them, so that its hash is the one the browser computes."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
