"""Every kind of figure in JupyterLab's light and dark theme, on a page without a lab: what is written can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import plotly.graph_objects as go
import pytest
import sample_scorecard as sample
from fix_browser import CHROMIUM, KERNEL, SPEC, NotebookPage, server
from playwright.sync_api import Locator, sync_playwright

from drlib.analysis.duplicates.result import Cause, DuplicateReport, Heat
from drlib.runs.check import Verdict
from drlib.training.academy import pictures
from drlib.training.academy.pictures import Line, Stretch
from drlib.ui.figures import figures
from drlib.ui.figures.duplicates import heat_figure
from drlib.ui.figures.positions import Standing, standing_figure

# Texts whose colour is less than 4.5 times as bright or dark as what is behind them, and grounds that are not the page's.
UNREADABLE = """picture => {
  const rgb = text => (text.match(/[0-9.]+/g) || []).slice(0, 3).map(Number);
  const light = text => rgb(text).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const seen = colour => colour !== 'transparent' && !/, 0\\)$/.test(colour);
  let page = picture;
  while (page && !seen(getComputedStyle(page).backgroundColor)) page = page.parentElement;
  const ground = getComputedStyle(page).backgroundColor, found = [];
  const behind = text => {  // the last bar or box that was drawn below its middle
    const box = text.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const under = [...picture.querySelectorAll('.bars path, .annotation rect.bg')].filter(e => {
      const place = e.getBoundingClientRect();
      const before = e.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
      return before && place.left <= x && x <= place.right && place.top <= y && y <= place.bottom
        && seen(getComputedStyle(e).fill) && getComputedStyle(e).fillOpacity > 0.5;
    });
    const fill = under.length ? getComputedStyle(under.at(-1)).fill : ground;
    const hatched = fill.match(/#[^")]+/);  // its pattern has the bar's colour below the lines
    return hatched ? getComputedStyle(document.querySelector(hatched[0]).querySelector('rect')).fill : fill;
  };
  for (const paper of picture.querySelectorAll('.main-svg')) {
    const colour = getComputedStyle(paper).backgroundColor;
    if (seen(colour) && colour !== ground) found.push(`paper ${colour} on a page that is ${ground}`);
  }
  for (const text of picture.querySelectorAll('text')) {
    if (!text.textContent.trim() || text.closest('.modebar') || !text.getBoundingClientRect().width) continue;
    if (text.closest('.heatmap-label')) continue;  // on an image: plotly chooses black or white
    const colour = getComputedStyle(text).fill, on = behind(text);
    if (contrast(colour, on) < 4.5) found.push(`${text.textContent}: ${colour} on ${on}`);
  }
  return found;
}"""


def drawn() -> dict[str, go.Figure]:
    card = sample.scorecard()
    cells = tuple(Heat(p, 1_700_000_000_000 + 60_000 * n, 7 * n + 1) for p in (0, 1) for n in range(4))
    counts = {Cause.REPLICATOR: 9}
    report = DuplicateReport(
        "orders", Verdict.FAIL, (), counts=counts, heat=cells, step_ms=60_000, target_records=90, source_records=90
    )
    stretches = {
        "LEFT": [Stretch("orders 0 to 9", 9, "LEFT"), Stretch("orders 9 to 20", 11, "RIGHT", marked=True)],
        "RIGHT": [Stretch("orders 0 to 9", 9, "LEFT")],
    }
    standings = [
        Standing("billing: orders-0", 0, 0, "exact"),
        Standing("mail: orders-1", 3, 0, "3 read again"),
        Standing("audit: orders-2", None, None, "unknown: no pair of copies"),
    ]
    return {
        "recovery time": figures.rto_figure(card),
        "traffic": figures.traffic_figure(card),
        "partitions": figures.partitions_figure(card),
        "positions": standing_figure("Positions", standings),
        "duplicates": heat_figure({"orders": report}),
        "nothing": figures.empty("Traffic", "No traffic was sampled during this drill."),
        "bars of a lesson": pictures.bars("Bars", ("LEFT", "RIGHT"), {"before": (90, 40), "after": (9, 0)}, "records"),
        "logs of a lesson": pictures.logs("Logs", stretches, "records", "written on", "the same again"),
        "lines of a lesson": pictures.lines("Lines", [Line("behind", (1, 2, 3), (0, 9, 4))], "seconds", "records"),
    }


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookPage]:
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    project = tmp_path_factory.mktemp("project")
    (project / "notebooks").mkdir()
    cells = []
    for number, figure in enumerate(drawn().values()):
        (project / f"{number}.json").write_text(json.dumps(json.loads(figure.to_json())))
        cells.append(f"import plotly.io\nplotly.io.read_json('../{number}.json')")
    other = "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=[1], y=[2]), {'title': 'of another program'})"
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (*cells, other)], metadata={"kernelspec": SPEC}
    )
    nbformat.write(book, project / "notebooks" / "00_start_here.ipynb")
    with server(project) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        opened = NotebookPage.watching(page)
        page.goto(address.replace("?", "?reset&", 1))
        opened.ready()
        opened.command("application:toggle-left-area")
        opened.run_to_end(90)
        yield opened
        page.evaluate(f"() => {KERNEL}?.shutdown()")
        browser.close()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_figures_are_readable_in_both_themes_and_at_every_width(
    notebook: NotebookPage, tmp_path: Path, width: int, theme: str
) -> None:
    notebook.page.set_viewport_size({"width": width, "height": 900})
    notebook.theme(theme)
    found = {}
    for number, name in enumerate(drawn()):
        picture = _picture(notebook, number)
        picture.screenshot(path=tmp_path / f"{name}.png")
        found[name] = picture.evaluate(UNREADABLE)
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert notebook.complaints == []


def test_figures_of_other_programs_keep_their_colours_in_the_dark_theme(notebook: NotebookPage) -> None:
    notebook.theme("JupyterLab Dark")
    paper = _picture(notebook, len(drawn())).locator(".main-svg").first
    assert paper.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"


def _picture(notebook: NotebookPage, number: int) -> Locator:
    picture = notebook.cell(number).locator(".js-plotly-plot")
    picture.locator("svg.main-svg").first.wait_for()
    return picture
