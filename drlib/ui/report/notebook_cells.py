"""The executed notebook as pieces of a page: prose, folded code, and outputs made harmless.

Rules: whatever a notebook holds, nothing of it runs or fetches: HTML is rebuilt from a list of allowed tags, pictures
stay only when they are in the file itself, and an address becomes its text. Headings go below the page's own.
Charts are handed over as plotly's JSON for the page's one script to draw. Not for: executing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import mistune
import nbformat
import nh3
from markupsafe import Markup

from drlib import decoding
from drlib.errors import DrlibError
from drlib.files import read_stored
from drlib.formats import html_text, printable
from drlib.runs.table import PLOTLY

# fmt: off
TAGS: Final = frozenset((
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "details", "div",
    "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s",
    "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u",
    "ul",
))
# fmt: on
ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "a": ("href",),
    "abbr": ("title",),
    "details": ("open",),
    "img": ("alt", "width", "height", "src"),
    "ol": ("start",),
    "td": ("colspan", "rowspan", "scope", "align"),
    "th": ("colspan", "rowspan", "scope", "align"),
}
WITH_CONTENT: Final = re.compile(r"<(script|style|template|iframe|object|svg|math)\b.*?(</\1\s*>|\Z)", re.I | re.S)
IMAGE: Final = re.compile(r"^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$")
ADDRESS: Final = re.compile(r'<a href="([^"]*)"[^>]*>(.*?)</a>', re.S)
UNNAMED = re.compile(r"<img(?![^>]*\balt=)")  # a picture without a description is decoration to a screen reader
HEADING: Final = re.compile(r"<(/?)h([1-6])\b")
ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
LONGEST: Final = 40_000  # characters of one text output
FORMAT: Final = 4  # of notebooks, which drlib executes
BELOW: Final = 2  # the page's h1 and h2 come before


class UnreadableNotebook(DrlibError):
    """The executed notebook cannot be read as a notebook."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path.name} cannot be shown", why, "Write the report without it, or execute it again.")


@dataclass(frozen=True, slots=True)
class Output:
    """One of HTML already safe, text, or a plotly figure's JSON."""

    html: Markup | None = None
    text: str | None = None
    figure: Mapping[str, object] | None = None
    error: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Prose (`html`) or code with its `outputs`. `number` is the execution count."""

    html: Markup | None = None
    source: str = ""
    number: int | None = None
    outputs: tuple[Output, ...] = ()


def read_cells(path: Path) -> tuple[Cell, ...]:
    """The notebook's cells in order, empty ones left out. Raises `UnreadableNotebook`."""
    try:
        data = read_stored(path)
        content = decoding.json_value(data)
        if not isinstance(content, dict) or content.get("nbformat") != FORMAT:
            raise UnreadableNotebook(path, f"it is not of format {FORMAT}")
        return tuple(_cells(nbformat.v4.reads(data.decode())))
    except (OSError, ValueError) as error:
        raise UnreadableNotebook(path, str(error).splitlines()[0][:200] if str(error) else "it is not valid") from None
    except (AttributeError, KeyError, TypeError):  # it was not compared with the schema, which would cost seconds
        raise UnreadableNotebook(path, "it is not valid") from None


def safe_html(html: str) -> Markup:
    """`html` with allowed tags only, nothing that runs or fetches, printable text, headings two levels down."""
    clean = CLEANER.clean(WITH_CONTENT.sub("", html))
    clean = UNNAMED.sub('<img alt=""', ADDRESS.sub(_address, clean))
    return Markup(printable(HEADING.sub(lambda m: f"<{m[1]}h{min(6, int(m[2]) + BELOW)}", clean)))


def prose(markdown: str) -> Markup:
    """Markdown as safe HTML; HTML inside it is shown as text."""
    render = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])
    return safe_html(str(render(markdown)))


def _cells(notebook: nbformat.NotebookNode) -> Iterator[Cell]:
    for cell in notebook.cells:
        if not cell.source.strip():
            continue
        if cell.cell_type == "markdown":
            yield Cell(html=prose(cell.source))
        elif cell.cell_type == "code":
            outputs = tuple(piece for output in cell.outputs for piece in _pieces(output))
            yield Cell(source=cell.source, number=cell.execution_count, outputs=outputs)
        else:
            yield Cell(html=Markup("<pre>{}</pre>").format(cell.source))


def _pieces(output: nbformat.NotebookNode) -> Iterator[Output]:
    if output.output_type == "stream":
        yield Output(text=_text(output.text), error=output.name == "stderr")
        return
    if output.output_type == "error":
        yield Output(text=_text("\n".join(output.traceback) or f"{output.ename}: {output.evalue}"), error=True)
        return
    data = output.data
    if "text/html" in data:
        yield Output(html=safe_html(data["text/html"]))
    elif "text/markdown" in data:
        yield Output(html=prose(data["text/markdown"]))
    elif "image/png" in data:
        picture = safe_html(
            f'<img alt="output of the cell" src="data:image/png;base64,{html_text(data["image/png"])}">'
        )
        yield Output(html=picture)
    elif "text/plain" in data and PLOTLY not in data:
        yield Output(text=_text(data["text/plain"]))
    if isinstance(data.get(PLOTLY), dict):
        yield Output(figure=data[PLOTLY])


def _embedded_images_only(tag: str, name: str, value: str) -> str | None:
    """The attribute's value, or None where it would fetch a picture from elsewhere."""
    return None if (tag, name) == ("img", "src") and not IMAGE.match(value) else value


CLEANER: Final = nh3.Cleaner(
    tags=set(TAGS),
    clean_content_tags=set(),
    attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
    attribute_filter=_embedded_images_only,
    url_schemes={"http", "https", "mailto", "data"},
    strip_comments=True,
    link_rel=None,
)


def _address(link: re.Match[str]) -> str:
    """A link as its text and, when it differs, the address: a report opens nothing."""
    address, text = link[1], link[2]
    return text if address.startswith("#") or address in text else f"{text} ({address})"


def _text(text: str) -> str:
    plain = ESCAPES.sub("", text)
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[:LONGEST]}\n… {len(plain) - LONGEST:,} more characters are in the notebook"
