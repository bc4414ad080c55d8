"""The report in a real browser: drawn, silent, offline, and readable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import nbformat
import pytest
import sample_scorecard as sample
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, TimeoutError, async_playwright

from drlib.lab.environment import MOVES, Banner, Environment
from drlib.runs import journal
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, LagPosition, Objectives, Rpo, Scorecard
from drlib.runs.table import Table
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind, Measurements
from drlib.training.incidents.rules.seed import draw_plan
from drlib.training.incidents.session import IncidentSession
from drlib.ui.figures.figures import traffic_figure
from drlib.ui.report import pdf
from drlib.ui.report.report import render, write_report

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


LONG = "8,412 processed; 0 yet to read; last committed on LEFT, by partition: " + ", ".join(
    f"{n} at 24,{n}66" for n in range(9)
)
BAD = (
    Check(
        "no record is there twice",
        Verdict.FAIL,
        "12 ids in more than one place; the first: record N14000-1, at flights-0@12",
    ),
    Check("group arrivals skips nothing", Verdict.FAIL, LONG),
    Check("objective: RTO in seconds", Verdict.FAIL, "at least 38.145 of at most 30 seconds: 8.145 seconds too many"),
    Check("steady state after the drill", Verdict.UNKNOWN, "it was not looked at"),
)


def failed_report(folder: Path) -> Path:
    """Of a drill on production, with every state of a check; those that did not pass come last in its scorecard, and twice."""
    card = sample.scorecard()
    environment = {**Banner(Environment.PRODUCTION, "paris->lyon", MOVES).facts(), **card.environment}
    card = card.model_copy(
        update={
            "checks": (*(each for each in card.checks if "RTO" not in each.name), *BAD, *BAD),
            "verdict": Verdict.FAIL,
            "environment": {**environment, "flow": "paris->lyon"},
            "rpo": Rpo(measured=False),
            "objectives": Objectives(rto_seconds=30),
        }
    )
    card.write(folder / "scorecard.json")
    return write_report(card, sample.journal(folder), folder, notebook=executed(folder))


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (420, 900)])
async def test_report_first_screen_has_the_verdict_and_what_did_not_pass_by_severity(
    tmp_path: Path, width: int, height: int
) -> None:
    path = failed_report(tmp_path)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": width, "height": height})
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart:has(svg.main-svg)').length >= 4")
        seen = await page.evaluate(
            """() => [...document.querySelectorAll('.verdict strong, .open tbody tr')].map(e => {
              const box = e.getBoundingClientRect();
              return [e.innerText.trim().split(/\\s*[\\t\\n]\\s*/).slice(0, 2), box.top >= 0 && box.bottom <= innerHeight
                && box.left >= 0 && box.right <= innerWidth];
            })"""
        )
        await page.screenshot(path=tmp_path / f"first-{width}.png")
        names = [*(check.name for check in BAD), "no record is lost beyond the objective", "data at risk (RPO)"]
        states = ["fail", "fail", "fail", "unknown", "conditions", "not measured"]
        assert [words for words, _ in seen] == [["FAIL"], *([s, n] for s, n in zip(states, names, strict=True))]
        assert [words for words, visible in seen if not visible] == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        summary = page.locator("details.long summary")
        assert await page.get_by_text("8 at 24,866").is_hidden()
        await summary.click()
        assert await page.get_by_text("8 at 24,866").is_visible()
        await browser.close()


async def test_report_colours_follow_the_system_the_switch_and_the_address(tmp_path: Path) -> None:
    path = drill_report(tmp_path)
    look = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
      getComputedStyle(document.querySelector('#figure-2 .gtitle')).fill,
      getComputedStyle(document.querySelector('#figure-2 .main-svg')).backgroundColor]"""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = {}
        for scheme in ("light", "dark"):
            for query in ("", "?theme=dark", "?theme=light"):
                page = await browser.new_page(color_scheme=scheme)
                await page.goto(path.as_uri() + query)
                await page.wait_for_function("document.querySelectorAll('.chart:has(svg.main-svg)').length >= 4")
                found[scheme, query] = tuple(await page.evaluate(look))
                if not query:
                    await page.locator("#theme").click()
                    found[scheme, "clicked"] = tuple(await page.evaluate(look))
                await page.close()
        await browser.close()
    light, dark = found["light", ""], found["dark", ""]
    assert all(one != other for one, other in zip(light, dark, strict=True)), (
        "page, text, and a figure's text and ground"
    )
    for key, wanted in {
        ("light", "clicked"): dark,
        ("light", "?theme=dark"): dark,
        ("light", "?theme=light"): light,
        ("dark", "clicked"): light,
        ("dark", "?theme=light"): light,
        ("dark", "?theme=dark"): dark,
    }.items():
        assert found[key] == wanted, key


LONG_RUN = pytest.mark.long


@pytest.mark.parametrize(
    ("made", "width", "scheme"),
    [
        (failed_report, 1280, "light"),
        (failed_report, 1280, "dark"),
        (failed_report, 420, "light"),
        (failed_report, 420, "dark"),
        (reveal, 420, "dark"),
        pytest.param(drill_report, 1280, "light", marks=LONG_RUN),
        pytest.param(drill_report, 1920, "light", marks=LONG_RUN),
        pytest.param(reveal, 1280, "light", marks=LONG_RUN),
        pytest.param(reveal, 1920, "light", marks=LONG_RUN),
    ],
)
async def test_report_has_no_accessibility_violation_and_no_overflow(
    tmp_path: Path, made: Callable[[Path], Path], width: int, scheme: Literal["light", "dark"]
) -> None:
    path = made(tmp_path)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": width, "height": 900}, bypass_csp=True, color_scheme=scheme
        )  # the checker is a script
        await page.goto(path.as_uri())
        await page.wait_for_function(
            "document.querySelector('.chart') && !document.querySelector('.chart:not(:has(svg.main-svg))')"
        )
        found = (await Axe().run(page)).response["violations"]
        assert [(rule["id"], rule["impact"], rule["nodes"][0]["target"]) for rule in found] == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await page.screenshot(path=tmp_path / f"{made.__name__}-{width}.png", full_page=True)
        await browser.close()


AT = """() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  const name = e.id || e.getAttribute('aria-label') || e.textContent.trim();
  return {tag: e.tagName, name, seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0,
    ring: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth)};
}"""


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_report_is_read_by_keyboard_alone(tmp_path: Path, width: int, scheme: Literal["light", "dark"]) -> None:
    """Everything that can be used or scrolled is reached by Tab, in its order and visibly, and works by Enter."""
    path = failed_report(tmp_path)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart:has(svg.main-svg)').length >= 4")
        there = "a[href], button, summary, [tabindex='0'], pre[tabindex]"
        shown = await page.locator(there).filter(visible=True).count()
        passed = []
        for _ in range(shown + 5):
            await page.keyboard.press("Tab")
            at = await page.evaluate(AT)
            if at["tag"] == "BODY":
                break
            with suppress(TimeoutError):  # the page scrolls smoothly
                await page.wait_for_function(f"({AT})().seen", timeout=5000)
            passed.append(await page.evaluate(AT))
        await page.screenshot(path=tmp_path / f"keyboard-{width}-{scheme}.png")
        assert len(passed) == shown
        assert [at for at in passed if not at["seen"] or at["ring"] < 2] == []
        assert passed[0]["name"] == "To the results"
        assert "theme" in {at["name"] for at in passed}

        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")  # the link that skips
        assert await page.evaluate("location.hash") == "#main"
        await page.locator("#theme").focus()
        was = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.keyboard.press("Enter")
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != was
        await page.locator("details.long summary").first.focus()
        await page.keyboard.press("Enter")
        assert await page.get_by_text("8 at 24,866").is_visible()
        await browser.close()


def long_report(folder: Path, kind: Kind) -> str:
    """A page with more of everything than fits on paper; of an analysis, a long lag."""
    card = sample.scorecard()
    part, lost = card.partitions[0], card.lost_examples[0]
    checks = tuple(Check(f"check {n} of many", Verdict.PASS, LONG if n % 4 == 0 else "7 of 7 seen") for n in range(25))
    lag = tuple(
        LagPosition(
            reader=f"group-{n}",
            cluster="LEFT",
            topic="a-topic-with-a-name-of-some-length",
            partition=n,
            records=n,
            age_seconds=0.5,
            trend="steady",
            verdict=Verdict.PASS,
            why="behind, and not growing towards a loss",
        )
        for n in range(500)
    )
    card = card.model_copy(
        update={
            "checks": (*BAD, *card.checks, *checks),
            "partitions": tuple(part.model_copy(update={"partition": n, "unmirrored": n}) for n in range(400)),
            "groups": tuple(card.groups[0].model_copy(update={"group": f"group-{n}"}) for n in range(100)),
            "lost_examples": tuple(lost.model_copy(update={"id": f"lost-{n}"}) for n in range(100)),
            "lag": lag if kind is Kind.ANALYSIS else (),
            "kind": kind,
        }
    )
    card.write(folder / "scorecard.json")
    files = tuple((f"details/step-{n}.rows.json", 1000 + n, f"{n:064x}") for n in range(60))
    return render(card, sample.journal(folder) * 40, files, executed(folder))


PRINTED_OVERLAPS = """() => {
  const texts = [];
  for (const e of document.querySelectorAll('h1, h2, caption, th, td, dt, dd, p, .annotation-text-g, .gtitle')) {
    const box = e.getBoundingClientRect();
    if (box.width && box.height && !e.closest('nav, .screen, .skip')) texts.push([e, box]);
  }
  const found = [];
  texts.forEach(([a, p], i) => { for (const [b, q] of texts.slice(i + 1)) {
    if (a.contains(b) || b.contains(a)) continue;
    if (p.left + 2 < q.right && q.left + 2 < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)
      found.push(`${a.textContent.slice(0, 40)} / ${b.textContent.slice(0, 40)}`);
  } });
  return found.slice(0, 10);
}"""


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        (Kind.DRILL, "on paper 15 of these 400, the others are in report.html"),
        (Kind.ANALYSIS, "on paper 60 of these 500, the others are in report.html"),
    ],
)
async def test_report_on_a4_is_light_without_overlaps_below_eight_pages_and_small(
    tmp_path: Path, kind: Kind, rest: str
) -> None:
    html = long_report(tmp_path, kind)
    path = tmp_path / "report.html"
    path.write_text(html)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
        await page.goto(path.as_uri())
        await page.wait_for_function("document.querySelectorAll('.chart:has(svg.main-svg)').length >= 1")
        await page.emulate_media(media="print", color_scheme="dark")
        await page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins, in CSS pixels
        await page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert await page.locator("nav").is_hidden()
        assert await page.locator("#notebook").is_hidden()
        assert await page.get_by_text(rest).first.is_visible()
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert await page.evaluate("document.documentElement.scrollWidth") <= 688
        assert await page.evaluate(PRINTED_OVERLAPS) == []
        assert await page.evaluate("[...document.querySelectorAll('details.long')].every(each => each.open)")
        await browser.close()
    pdf.write_pdf(html, tmp_path / "report.pdf")
    sheets = (tmp_path / "report.pdf").read_bytes()
    pages = sheets.count(b"/Type /Page\n")
    assert 3 <= pages < 8
    size = len(sheets)
    assert size < 1_500_000


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
