"""An incident as its player and its game master meet it: JupyterLab in a real browser, on a lab of the incident's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from fix_browser import NotebookPage, Notebooks, OpenPage
from fix_engine import wait_for

from drlib.training.incidents import store as incidents
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.causes import CAUSES, Planted
from drlib.training.incidents.rules.seed import seed_for

NOTEBOOK = "academy/99_incident.ipynb"
WIDTHS = (1280, 1920)
OUTPUTS = ".jp-Notebook .jp-OutputArea-output"
CATALOGUE = "What can be done, and what it can be"
# Everything the page holds, hidden or not, but for the table of all moves and diagnoses, which names every cause alike.
PAGE = """caption => {
  const page = document.documentElement.cloneNode(true);
  for (const table of page.querySelectorAll('table'))
    if (table.caption?.textContent === caption) table.remove();
  return page.outerHTML;
}"""
RUN = "() => jupyterapp.commands.execute('notebook:run-cell')"
RAN = r"() => /^\[\d+\]:$/.test(document.querySelector('.jp-Cell.jp-mod-active .jp-InputPrompt')?.textContent)"


@pytest.fixture
def ended(notebooks: Notebooks) -> Iterator[Callable[[], Incident]]:
    """The incident of the test, which is ended after it whatever happened."""
    yield lambda: incidents.find(notebooks.project / "runs")
    for journal in (notebooks.project / "runs").glob("*/journal.jsonl"):
        Incident(journal.parent).close()


@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_player_sees_symptoms_a_master_causes_and_a_reload_finds_the_incident(
    notebooks: Notebooks, open_page: OpenPage, tmp_path: Path, ended: Callable[[], Incident]
) -> None:
    with_parameters(notebooks, seed=seed_for("partitions-added"), level=CAUSES["partitions-added"].level, at_once=True)
    player = open_page(NOTEBOOK)
    player.ready()
    start(player)
    game = ended()
    shape = player.page.locator(OUTPUTS, has_text="not the same number of partitions")
    look_until(player, lambda: shape.count() > 0)
    (planted,) = game.record.planted()
    looked_at(player, tmp_path, "symptoms")
    names_no_cause(player, planted)
    player.save()
    kept = nbformat.read(notebooks.project / "notebooks" / NOTEBOOK, as_version=4)
    shown = [out for cell in kept.cells for out in cell.get("outputs", []) if CATALOGUE not in str(out)]
    assert not any(word in str(shown) for word in told_of(planted)), "what is saved says it"

    player.page.reload()
    player.ready()
    player.page.locator(OUTPUTS, has_text=CATALOGUE).wait_for()
    names_no_cause(player, planted)
    select_cell(player, "game.play()")
    look_until(player, lambda: shape.count() > 0)
    assert [found.folder for found in every(notebooks)] == [game.folder], "a reload begins no other incident"

    master = open_page(
        notebooks.write(
            "master.ipynb",
            f"import drlib\n\nmaster = drlib.open_incident({str(game.folder)!r})\nmaster.master()",
            "master.inject('clock-skew')",
            "master.master()",
        )
    )
    master.ready()
    master.run_all()
    view = master.page.locator(OUTPUTS, has_text="The master's view")
    view.filter(has_text=planted.said(planted.kind.story)).first.wait_for()
    view.filter(has_text=re.compile(r"The clock of the machine that runs gates was set \d+ minutes back")).wait_for()
    looked_at(master, tmp_path, "master")
    assert master.errors() == []
    both = game.record.planted()
    assert [one.cause for one in both] == ["partitions-added", "clock-skew"]

    player.page.bring_to_front()
    times = player.page.locator(OUTPUTS, has_text="bear the time of another moment")
    look_until(player, lambda: times.count() > 0)
    names_no_cause(player, *both)

    player.page.get_by_role("heading", name="Say what it is, and repair it").click()
    typed = ['game.act("acknowledge")']
    for one in both:
        typed += [f'game.diagnose("{one.cause}")', *(f'game.act("{move}")' for move in one.repair)]
    for line in typed:
        by_hand(player, line)
    player.page.locator(OUTPUTS, has_text="the clock of gates is right").wait_for()
    page = player.page.evaluate(PAGE, CATALOGUE)
    assert not any(one.said(one.kind.story) in page for one in both), "not even whoever is right is told so"
    wait_for("the clusters have everything back", lambda: game.standing() == (), 60)
    select_cell(player, "game.finish()")
    player.run_next()
    player.page.locator(OUTPUTS, has_text="100 of 100 points").first.wait_for(timeout=90_000)
    looked_at(player, tmp_path, "score")
    for _ in range(5):  # text, reveal, what would have been good, replay, verdict
        player.run_next()
    player.page.locator(OUTPUTS, has_text="Verdict: pass").wait_for()
    picture = player.page.locator(OUTPUTS).filter(has=player.page.locator("svg.main-svg"))
    picture.wait_for()
    for one in both:
        assert picture.get_by_text(one.said(one.kind.story)).count() >= 1
        assert player.page.locator(OUTPUTS, has_text=one.said(one.kind.good)).count() == 1
    replayed = player.page.locator(OUTPUTS, has_text="it is over").last.text_content() or ""
    assert replayed.index("acknowledge") < replayed.index("grow-topic") < replayed.index("finished")
    select_cell(player, "game.reveal()")
    looked_at(player, tmp_path, "reveal", again=True)
    assert player.errors() == []
    assert [*player.complaints, *master.complaints] == []


def start(player: NotebookPage) -> None:
    """Text, parameters, text, and the cell that brings the incident up; then on to the one that looks."""
    for _ in range(4):
        player.run_next()
    player.page.locator(OUTPUTS, has_text=CATALOGUE).wait_for(timeout=120_000)
    player.ready()
    player.run_next()


def look_until(player: NotebookPage, seen: Callable[[], bool]) -> None:
    """Run the cell that looks, again and again, as its text says."""

    def looked() -> bool:
        player.page.evaluate(RUN)
        return seen()

    wait_for("it shows", looked, 60)


def names_no_cause(player: NotebookPage, *planted: Planted) -> None:
    page = player.page.evaluate(PAGE, CATALOGUE)
    found = [word for one in planted for word in told_of(one) if word in page]
    assert found == [], "the page says it"


def told_of(planted: Planted) -> tuple[str, ...]:
    """Words that give a cause away."""
    kind = planted.kind
    return (planted.cause, kind.title, planted.said(kind.story), *(str(move) for move in planted.repair))


def select_cell(player: NotebookPage, code: str) -> None:
    player.page.locator(".jp-CodeCell .jp-InputArea-editor", has_text=code).last.click()
    player.page.keyboard.press("Escape")


def by_hand(player: NotebookPage, line: str) -> None:
    """A new cell below, typed and run by the keyboard."""
    for key in ("Escape", "b", "Enter"):
        player.page.keyboard.press(key)
    player.page.keyboard.insert_text(line)
    player.page.keyboard.press("Control+Enter")
    player.page.wait_for_function(RAN)


def looked_at(page: NotebookPage, tmp_path: Path, name: str, *, again: bool = False) -> None:
    """At each width: a picture to look at, and no barrier that a checker can find. `again`: the cell is run at it."""
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": 900})
        if again:
            page.page.evaluate(RUN)
            page.page.locator(f"{OUTPUTS} svg.main-svg").first.wait_for()
            page.page.locator(".jp-Cell.jp-mod-active").evaluate("cell => cell.scrollIntoView()")
        page.page.screenshot(path=tmp_path / f"{name}-{width}.png")
        found = Axe().run(page.page, context=OUTPUTS).response["violations"]
        bad = [(r["id"], r["impact"], r["nodes"][0]["target"]) for r in found if r["impact"] in ("serious", "critical")]
        assert bad == [], (name, width)
    page.page.set_viewport_size({"width": WIDTHS[0], "height": 900})


def with_parameters(notebooks: Notebooks, **values: object) -> None:
    """The incident's notebook with other values in its parameters, as somebody has written them in."""
    path = notebooks.project / "notebooks" / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    cell = next(one for one in book.cells if "parameters" in one.metadata.get("tags", []))
    for name, value in values.items():
        cell.source, changed = re.subn(rf"(?m)^({name}: \w+ = )\S+", rf"\g<1>{value!r}", cell.source)
        assert changed == 1, name
    nbformat.write(book, path)


def every(notebooks: Notebooks) -> list[Incident]:
    return [Incident(path.parent) for path in (notebooks.project / "runs").glob("*/journal.jsonl")]
