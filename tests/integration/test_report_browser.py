"""The report in a real browser: drawn, silent, offline, and readable."""

from __future__ import annotations

from pathlib import Path

import nbformat
import sample_scorecard as sample
from playwright.async_api import Page, async_playwright

from drlib.views.figures import traffic_figure
from drlib.views.report import write_report
from drlib.views.rich import Shown

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
    bundle = Shown("Traffic", [{"n": 1}], traffic_figure(sample.scorecard()))._repr_mimebundle_()
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


async def test_the_report_opens_offline_with_every_chart_drawn(tmp_path: Path) -> None:
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
