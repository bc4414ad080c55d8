"""The live view of an incident in JupyterLab, on a real lab: what it shows, by whom it is used, and what it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_browser import NotebookPage, Notebooks, OpenPage, violations
from fix_engine import wait_for
from incident_seeds import seed_for
from playwright.sync_api import Page, expect

from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause

VIEW = ".drlib-console-widget"
CAUSE = "partitions-added"
# The whole page without what is chosen from lists, which offer every move and every diagnosis, and what it would be written as.
PAGE = """() => {
  const page = document.documentElement.cloneNode(true);
  for (const offered of page.querySelectorAll('select')) offered.remove();
  return page.outerHTML;
}"""
BUSY = "import pathlib, time\nwhile not pathlib.Path('enough').exists():\n    time.sleep(0.05)"


@pytest.fixture
def folder(notebooks: Notebooks) -> Iterator[Path]:
    """Where the notebook's incident will be; it is ended after the test."""
    found = notebooks.project / "runs" / "live"
    yield found
    if (found / "journal.jsonl").exists():
        Incident(found).close()


@pytest.mark.long
@pytest.mark.timeout(500)
def test_live_view_shows_symptoms_and_moves_while_a_cell_runs_and_adds_cells(
    notebooks: Notebooks, open_page: OpenPage, tmp_path: Path, folder: Path
) -> None:
    level, seed = CAUSES[CAUSE].level, seed_for(CAUSE)
    start = f"drlib.open_incident('../runs/live', lab_dir='../.lab', seed={seed}, level={level}, at_once=True)"
    cells = (f"import drlib\n\nincident = {start}", "incident.live()", BUSY, "incident.finish()")
    notebook = open_page(notebooks.write("live.ipynb", *cells))
    notebook.ready()
    page = notebook.page
    for _ in range(3):
        notebook.run_next()
    page.locator(VIEW).wait_for(timeout=150_000)
    incident = Incident(folder)
    view = page.locator(VIEW)
    view.locator("svg.main-svg").first.wait_for()
    view.get_by_text("1 symptom", exact=True).first.wait_for(timeout=60_000)
    view.locator("svg", has_text="partition counts").first.wait_for()
    (injected,) = incident.record.injected_causes()
    says_nothing_hidden(page, injected, level)

    page.get_by_label("Move", exact=True).focus()  # acknowledge is the first; by keyboard, while the last cell runs
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent.trim()") == "Make this move"
    page.keyboard.press("Enter")
    view.locator("td", has_text="acknowledge").wait_for()
    view.get_by_text("after it").wait_for()

    (repair,) = injected.repair
    page.get_by_label("Move", exact=True).select_option(repair.name)
    for parameter, argument in zip(repair.definition.parameters, repair.arguments, strict=True):
        page.get_by_label(parameter.capitalize(), exact=True).select_option(argument)
    call = f'incident.act("{repair}")'
    view.locator("code", has_text=call).wait_for()
    page.get_by_role("button", name="Add as a cell").click()
    dialog = page.locator(".jp-Dialog")
    dialog.get_by_role("button", name="Trust").click()
    dialog.filter(has_text="Trust this notebook?").get_by_role("button", name="Trust").click()
    wait_for("the cell is added", lambda: call in sources(notebook), 20)
    page.get_by_role("button", name="Add as a cell").press("Enter")  # trusted now: without a dialog, and by keyboard
    wait_for("the cell is added again", lambda: sources(notebook).count(call) == 2, 20)
    assert dialog.count() == 0
    assert not (notebooks.project / "notebooks" / "enough").exists(), "the cell ran all the time"
    assert "grow-topic" not in (folder / "journal.jsonl").read_text(), "adding a cell makes no move"
    (notebooks.project / "notebooks" / "enough").touch()
    notebook.ready()
    notebook.command("notebook:run-cell")
    view.locator("td", has_text=str(repair)).wait_for()
    view.get_by_text("No symptoms", exact=True).first.wait_for(timeout=60_000)
    view.locator("svg", has_text="gone").first.wait_for()
    says_nothing_hidden(page, injected, level, done=str(repair))

    notebook.command("application:toggle-left-area")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        for width in (420, 1280):
            inspect(page, width)
            page.screenshot(path=tmp_path / f"live-{width}-{theme.rsplit(maxsplit=1)[-1].lower()}.png")
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 5; }")
    assert sources(notebook)[5] == "incident.finish()"
    notebook.command("notebook:run-cell")
    view.get_by_text("The incident is finished").first.wait_for(timeout=90_000)
    expect(page.get_by_role("button", name="Make this move")).to_be_disabled()
    expect(page.get_by_role("button", name="Add as a cell")).to_have_count(0)
    assert notebook.errors() == []
    assert notebook.complaints == []


def sources(notebook: NotebookPage) -> list[str]:
    return [cell.source for cell in notebook.book().cells]


def says_nothing_hidden(page: Page, injected: InjectedCause, level: int, *, done: str = "") -> None:
    """`done`: a move that the player has made."""
    kind, text = injected.definition, page.evaluate(PAGE)
    hidden = (injected.cause, kind.title, injected.render(kind.story), *map(str, injected.repair))
    assert [word for word in hidden if word in text and word != done] == [], "the page names the cause"
    assert f"level {level}" not in page.locator(VIEW).inner_text()


def inspect(page: Page, width: int) -> None:
    """At this width nothing sticks out, and nothing is a barrier."""
    page.set_viewport_size({"width": width, "height": 900})
    view = page.locator(VIEW)
    view.scroll_into_view_if_needed()
    page.wait_for_function(
        f"() => document.querySelector('{VIEW}').scrollWidth <= document.querySelector('{VIEW}').clientWidth + 1"
    )
    assert violations(page, VIEW) == [], width
