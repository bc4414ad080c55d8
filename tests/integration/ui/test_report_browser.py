"""The report in a real browser: drawn, silent, offline, and readable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
import sample_scorecard as sample
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, async_playwright

from drlib.runs import journal
from drlib.runs.scorecard import Scorecard
from drlib.runs.table import Table
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind, Measurements
from drlib.training.incidents.rules.seed import draw_plan
from drlib.training.incidents.session import IncidentSession
from drlib.ui.figures.figures import traffic_figure
from drlib.ui.report.report import write_report

CHROMIUM = Path("/usr/bin/chromium")
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('#figure-1, #figure-2, #figure-3')].map(place =>
    [...place.querySelectorAll('g.annotation-text-g, text.gtitle')].map(
      e => [e.textContent, e.getBoundingClientRect()]));
  return boxes.flatMap(list => list.flatMap(([a, p], i) => list.slice(i + 1)
    .filter(([, q]) => p.left + 1 < q.right && q.left + 1 < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)
    .map(([b]) => `${a} / ${b}`)));
}"""


def executed(folder: Path) -> Path:
    bundle = Table("Traffic", [{"n": 1}], figure=traffic_figure(sample.scorecard()))._repr_mimebundle_()
    hostile = "<script>document.title='taken'</script><img src='https://evil.example/x.png' onerror='x()'>"
    cells = [
        nbformat.v4.new_markdown_cell("# Fail over\n\nWhat this does, how long it takes, how to stop it."),
        nbformat.v4.new_code_cell(
            "drill.run()",
            outputs=[
                nbformat.v4.new_output("display_data", bundle),
                nbformat.v4.new_output("display_data", {"text/html": hostile}),
            ],
        ),
    ]
    path = folder / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


async def test_report_opens_offline_with_every_chart_drawn(tmp_path: Path) -> None:
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    card = sample.scorecard()
    card.write(tmp_path / "scorecard.json")
    path = write_report(card, sample.journal(tmp_path), tmp_path, notebook=executed(tmp_path))
    requests: list[str] = []
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart .main-svg').length >= 12")

        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert requests[0] == path.as_uri()
        assert complaints == []
        assert await page.locator(".chart:has(svg.main-svg)").count() == 4
        assert await page.title() == "PASS WITH CONDITIONS: failover-drill 20261121T100000Z-4be0a7"
        assert await page.locator("#figure-1 g.trace.bars path").count() == 4
        assert await page.locator("#figure-2 g.trace.scatter").count() == 4
        assert await page.evaluate(OVERLAPS) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
        await _the_policy_holds(page)
        shot = await page.screenshot(path=tmp_path / "report.png", full_page=True)
        assert len(shot) > 100_000
        await browser.close()


def reveal(folder: Path) -> Path:
    """The report of an incident with a harmful move and a hint, from its journals."""
    (folder / "incident").mkdir()
    record = IncidentRecord(folder / "incident")
    incident = draw_plan(1, 1)
    (cause,) = incident.causes
    record.write(EventKind.STARTED, seed=1, level=1, sealed=record.seal_plan(incident), lab="lab", own_lab=True)
    record.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    record.write(EventKind.SYMPTOM, word="a topic is not mirrored, or more slowly than it is written")
    for move in ("acknowledge", "move-applications RIGHT"):
        record.write(EventKind.ACTED, move=move, said="done")
    record.write(EventKind.HINTED, word="Look at the link.")
    record.write(EventKind.DIAGNOSED, word=cause.cause)
    record.write(EventKind.ACTED, move=str(cause.repair[0]), said="done")
    record.write_sealed(EventKind.RECOVERED)
    record.write(EventKind.FINISHED, recovered=True, lost=0, read_again=0)
    record.save_measurements(Measurements(recovered=True, lost=0, read_again=0, doubled=0))
    played = IncidentSession(Incident(record.folder), "you")
    cells = [nbformat.v4.new_markdown_cell("# Incident\n\nWhat it was.")]
    for call, shown in (("finish", played.score()), ("reveal", played.reveal()), ("conclude", played.conclude())):
        output = nbformat.v4.new_output("display_data", shown._repr_mimebundle_())
        cells.append(nbformat.v4.new_code_cell(f"incident.{call}()", outputs=[output]))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "executed.ipynb")
    card = Scorecard.model_validate_json((record.folder / "scorecard.json").read_text())
    return write_report(card, journal.read(record.folder / "journal.jsonl"), folder, notebook=folder / "executed.ipynb")


def drill_report(folder: Path) -> Path:
    card = sample.scorecard()
    card.write(folder / "scorecard.json")
    return write_report(card, sample.journal(folder), folder, notebook=executed(folder))


@pytest.mark.parametrize("width", [1280, pytest.param(1920, marks=pytest.mark.long)])
@pytest.mark.parametrize("made", [drill_report, reveal])
async def test_report_has_no_accessibility_violation_and_no_overflow(
    tmp_path: Path, made: Callable[[Path], Path], width: int
) -> None:
    path = made(tmp_path)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": width, "height": 900}, bypass_csp=True
        )  # the checker is a script
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart:has(svg.main-svg)').length >= 4")
        found = (await Axe().run(page)).response["violations"]
        assert [(rule["id"], rule["impact"], rule["nodes"][0]["target"]) for rule in found] == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await page.screenshot(path=tmp_path / f"{made.__name__}-{width}.png", full_page=True)
        await browser.close()


async def test_report_prints(tmp_path: Path) -> None:
    path = drill_report(tmp_path)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart .main-svg').length >= 12")
        await page.emulate_media(media="print")
        await page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins, in CSS pixels
        assert await page.locator("nav").is_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 688
        sheets = await page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
        assert 4 <= sheets.count(b"/Type /Page\n") <= 20
        await browser.close()


async def _the_policy_holds(page: Page) -> None:
    """Even code that got in could neither be added as a script nor reach anything."""
    reached = await page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'reached', error => error.name)")
    assert reached == "TypeError"
    blocked = await page.evaluate(
        """() => new Promise(resolve => {
          document.addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
          const script = document.createElement('script');
          script.textContent = 'document.title = "taken"';
          document.body.append(script);
        })"""
    )
    assert blocked.startswith("script-src")
    assert await page.title() != "taken"
