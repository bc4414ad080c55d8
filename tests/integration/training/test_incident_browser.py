"""The incident notebook as a player and a game master use it: JupyterLab in a real browser, on a lab of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from fix_browser import NotebookPage, Notebooks, OpenPage, violations
from fix_engine import wait_for
from incident_seeds import seed_for

from drlib.training.incidents import store as incidents
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause

NOTEBOOK = "academy/99_incident.ipynb"
OUTPUTS = ".jp-Notebook .jp-OutputArea-output"
CATALOGUE = "Moves and diagnoses"
# The whole page, hidden parts too, without the table of moves and diagnoses, which names every cause.
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
    """Returns the test's incident, which is ended after the test."""
    yield lambda: incidents.find(notebooks.project / "runs")
    for journal in (notebooks.project / "runs").glob("*/journal.jsonl"):
        Incident(journal.parent).close()


@pytest.mark.long
@pytest.mark.timeout(500)
def test_incident_notebook_shows_symptoms_to_players_and_causes_to_the_master(
    notebooks: Notebooks, open_page: OpenPage, tmp_path: Path, ended: Callable[[], Incident]
) -> None:
    with_parameters(notebooks, seed=seed_for("partitions-added"), level=CAUSES["partitions-added"].level, at_once=True)
    player = open_page(NOTEBOOK)
    player.ready()
    start(player)
    incident = ended()
    shape = player.page.locator(OUTPUTS, has_text="different partition counts")
    refresh_until(player, lambda: shape.count() > 0)
    (injected,) = incident.record.injected_causes()
    inspect(player, tmp_path, "symptoms")
    names_no_cause(player, injected)
    player.save()
    kept = nbformat.read(notebooks.project / "notebooks" / NOTEBOOK, as_version=4)
    shown = [out for cell in kept.cells for out in cell.get("outputs", []) if CATALOGUE not in str(out)]
    assert not any(word in str(shown) for word in revealing_texts(injected)), "the saved notebook names the cause"

    player.page.reload()
    player.ready()
    player.page.locator(OUTPUTS, has_text=CATALOGUE).wait_for()
    names_no_cause(player, injected)
    select_cell(player, "incident.play()")
    refresh_until(player, lambda: shape.count() > 0)
    assert [found.folder for found in all_incidents(notebooks)] == [incident.folder], (
        "the reload started another incident"
    )

    master = open_page(
        notebooks.write(
            "master.ipynb",
            f"import drlib\n\nmaster = drlib.open_incident({str(incident.folder)!r})\nmaster.master()",
            "master.inject('clock-skew')",
            "master.master()",
        )
    )
    master.ready()
    master.run_all()
    view = master.page.locator(OUTPUTS, has_text="The game master's view")
    view.filter(has_text=injected.render(injected.definition.story)).first.wait_for()
    view.filter(has_text=re.compile(r"The clock of the machine that runs gates was set \d+ minutes back")).wait_for()
    inspect(master, tmp_path, "master")
    assert master.errors() == []
    both = incident.record.injected_causes()
    assert [one.cause for one in both] == ["partitions-added", "clock-skew"]

    player.page.bring_to_front()
    times = player.page.locator(OUTPUTS, has_text="carry a wrong timestamp")
    refresh_until(player, lambda: times.count() > 0)
    names_no_cause(player, *both)

    player.page.get_by_role("heading", name="Diagnose and repair").click()
    typed = ['incident.act("acknowledge")']
    for one in both:
        typed += [f'incident.diagnose("{one.cause}")', *(f'incident.act("{move}")' for move in one.repair)]
    for line in typed:
        type_and_run(player, line)
    player.page.locator(OUTPUTS, has_text="the clock of gates is right").wait_for()
    page = player.page.evaluate(PAGE, CATALOGUE)
    assert not any(one.render(one.definition.story) in page for one in both), (
        "the page confirms a diagnosis before the end"
    )
    wait_for("the incident has recovered", lambda: incident.unresolved() == (), 60)
    select_cell(player, "incident.finish()")
    player.run_next()
    player.page.locator(OUTPUTS, has_text="100 of 100 points").first.wait_for(timeout=90_000)
    inspect(player, tmp_path, "score")
    for _ in range(6):  # text, reveal, reference, debriefing, replay, verdict
        player.run_next()
    player.page.locator(OUTPUTS, has_text="Verdict: pass").wait_for()
    picture = player.page.locator(OUTPUTS).filter(has=player.page.locator("svg.main-svg"))
    picture.first.wait_for()
    labels = "".join(picture.first.locator("g.annotation-text-g").all_text_contents()).replace(" ", "")
    for one in both:
        assert one.render(one.definition.story).replace(" ", "") in labels, "whole, in lines"
        assert player.page.locator(OUTPUTS, has_text=one.render(one.definition.good)).count() == 1
    replayed = player.page.locator(OUTPUTS, has_text="Replay: ").first.text_content() or ""
    assert replayed.index("acknowledge") < replayed.index("grow-topic") < replayed.index("finished")
    player.page.get_by_role("button", name="Next event").press("Enter")
    player.page.locator(OUTPUTS, has_text="after 0.0 s: state: everything works").wait_for()
    player.page.get_by_label("Moment").select_option("after 0.0 s")
    assert (incident.folder / "debriefing.html").exists()
    select_cell(player, "incident.reveal()")
    inspect(player, tmp_path, "reveal", again=True)
    assert player.errors() == []
    assert [*player.complaints, *master.complaints] == []


def start(player: NotebookPage) -> None:
    """Run the cells up to the one that starts the incident, then select the one that shows the status."""
    for _ in range(4):
        player.run_next()
    player.page.locator(OUTPUTS, has_text=CATALOGUE).wait_for(timeout=120_000)
    player.ready()
    select_cell(player, "incident.play()")


def refresh_until(player: NotebookPage, seen: Callable[[], bool]) -> None:
    """Run the status cell repeatedly, as its text says."""

    def is_shown() -> bool:
        player.page.evaluate(RUN)
        return seen()

    wait_for("the status shows it", is_shown, 60)


def names_no_cause(player: NotebookPage, *injected: InjectedCause) -> None:
    page = player.page.evaluate(PAGE, CATALOGUE)
    found = [word for one in injected for word in revealing_texts(one) if word in page]
    assert found == [], "the page names the cause"


def revealing_texts(injected: InjectedCause) -> tuple[str, ...]:
    """Texts that reveal a cause."""
    kind = injected.definition
    return (injected.cause, kind.title, injected.render(kind.story), *(str(move) for move in injected.repair))


def select_cell(player: NotebookPage, code: str) -> None:
    player.page.locator(".jp-CodeCell .jp-InputArea-editor", has_text=code).last.click()
    player.page.keyboard.press("Escape")


def type_and_run(player: NotebookPage, line: str) -> None:
    """Type a new cell below and run it, by keyboard."""
    for key in ("Escape", "b", "Enter"):
        player.page.keyboard.press(key)
    player.page.keyboard.insert_text(line)
    player.page.keyboard.press("Control+Enter")
    player.page.wait_for_function(RAN)


def inspect(page: NotebookPage, tmp_path: Path, name: str, *, again: bool = False) -> None:
    """At each width and in each theme: take a screenshot and check accessibility. `again`: run the cell at that width."""
    for width, theme in page.looks():
        if again:
            page.page.evaluate(RUN)
            page.page.locator(f"{OUTPUTS} svg.main-svg").first.wait_for()
            page.page.locator(".jp-Cell.jp-mod-active").evaluate("cell => cell.scrollIntoView()")
        page.page.screenshot(path=tmp_path / f"{name}-{width}-{theme.rsplit(maxsplit=1)[-1].lower()}.png")
        assert violations(page.page, OUTPUTS) == [], (name, width, theme)


def with_parameters(notebooks: Notebooks, **values: object) -> None:
    """Write other values into the parameters cell of the incident notebook."""
    path = notebooks.project / "notebooks" / NOTEBOOK
    book = nbformat.read(path, as_version=4)
    cell = next(one for one in book.cells if "parameters" in one.metadata.get("tags", []))
    for name, value in values.items():
        cell.source, changed = re.subn(rf"(?m)^({name}: \w+ = )\S+", rf"\g<1>{value!r}", cell.source)
        assert changed == 1, name
    nbformat.write(book, path)


def all_incidents(notebooks: Notebooks) -> list[Incident]:
    return [Incident(path.parent) for path in (notebooks.project / "runs").glob("*/journal.jsonl")]
