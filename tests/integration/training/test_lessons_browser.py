"""The lessons as a new user sees them: in JupyterLab, in a real browser, on one real lab for all lessons."""

from __future__ import annotations

import re
import time
from pathlib import Path

import nbformat
import pytest
from fix_browser import KERNEL, NotebookPage, Notebooks, OpenPage, RecordProperty, violations
from playwright.sync_api import Locator
from repository_root import ROOT
from testbed_lessons import lab_of

from drlib.training.academy import progress
from drlib.training.academy.open import LESSONS
from drlib.training.academy.points import Attempt

ROOT = ROOT / "notebooks" / "academy"
BOOKS = {key: next(ROOT.glob(f"{key}_*.ipynb")).name for key in LESSONS}
RAN_S = 240.0
pytestmark = pytest.mark.timeout(400)  # the first test also starts lab and server
CELLS = ".jp-Notebook .jp-MarkdownOutput, .jp-Notebook .jp-OutputArea-output"
# Labels in a figure that overlap or leave it.
LABEL_FAULTS = """picture => {
  const frame = picture.getBoundingClientRect();
  const labels = [...picture.querySelectorAll('g.annotation-text-g, text.gtitle, text.bartext, g.xtick text, g.ytick text, ' +
    'text.xtitle, text.ytitle')].map(e => [e.textContent, e.getBoundingClientRect()]).filter(([, r]) => r.width > 0);
  const cut = labels.filter(([, r]) => r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 ||
    r.bottom > frame.bottom + 1).map(([text]) => `cut off: ${text}`);
  const over = labels.flatMap(([a, p], i) => labels.slice(i + 1)
    .filter(([, q]) => p.left + 1 < q.right && q.left + 1 < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)
    .map(([b]) => `overlapping: ${a} / ${b}`));
  return [...cut, ...over];
}"""


def attempt(notebooks: Notebooks, key: str) -> Attempt:
    found = progress.read(notebooks.project / "runs" / "academy").of(key).current
    assert found is not None
    return found


def with_answers(notebooks: Notebooks, key: str) -> str:
    """Write a copy of the lesson whose parameters ask for reference answers; returns its name."""
    name = f"academy/reference_{BOOKS[key]}"
    book = nbformat.read(ROOT / BOOKS[key], 4)
    (cell,) = (one for one in book.cells if "parameters" in one.metadata.get("tags", ()))
    assert cell.source.count('answers: str = ""') == 1
    cell.source = cell.source.replace('answers: str = ""', 'answers: str = "reference"')
    nbformat.write(book, notebooks.project / "notebooks" / name)
    return name


def steps(notebook: NotebookPage) -> list[str]:
    tags = [tag for cell in notebook.book().cells for tag in cell.metadata.get("tags", ())]
    return [tag.partition("=")[2] for tag in tags if tag.startswith("drlib:step=")]


def holds(checked: Locator) -> list[str]:
    """The results in the table of checks, as shown on the page."""
    checked.locator("tbody tr").nth(2).wait_for()
    return [one.strip() for one in checked.locator("tbody tr td:nth-child(3)").all_inner_texts()]


def opened(notebook: NotebookPage) -> float:
    """Run the parameters, then measure the seconds until the opening cell has its output."""
    notebook.ready()
    notebook.run_step("parameters")
    began = time.monotonic()
    notebook.run_step("open").locator(".jp-OutputArea-output table").wait_for()
    return time.monotonic() - began


def inspect(notebook: NotebookPage, folder: Path) -> list[str]:
    """Take a screenshot of each step; returns labels and outputs that are cut off or overlap."""
    faults = []
    notebook.see("parameters")
    notebook.page.screenshot(path=folder / "top.png")
    for step in steps(notebook):
        cell = notebook.see(step)
        for picture in cell.locator(".js-plotly-plot").all():
            picture.locator("svg.main-svg").first.wait_for()
            faults += [f"{step}: {one}" for one in picture.evaluate(LABEL_FAULTS)]
        cell.screenshot(path=folder / f"{steps(notebook).index(step):02}-{step}.png")
        for output in cell.locator(".jp-OutputArea-output").all():
            if output.evaluate("e => e.scrollWidth > e.clientWidth + 1"):
                faults.append(f"{step}: wider than its cell")
    return faults


def barriers(notebook: NotebookPage) -> list[tuple[str, str, str]]:
    """Accessibility violations in the lesson's text and outputs, without JupyterLab's own frame."""
    # cells out of view are not rendered, and the checker would skip them
    notebook.page.add_style_tag(content=".jp-Cell { content-visibility: visible !important; }")
    return violations(notebook.page, CELLS)


@pytest.mark.long
@pytest.mark.parametrize("key", LESSONS)
def test_lesson_notebook_passes_with_reference_answers(
    notebooks: Notebooks, open_page: OpenPage, tmp_path: Path, record_property: RecordProperty, key: str
) -> None:
    with lab_of(key, notebooks.lab):
        began = time.monotonic()
        notebook = open_page(with_answers(notebooks, key), width=1920)
        ready_s = opened(notebook)
        notebook.run_to_end(RAN_S)
        took_s = time.monotonic() - began
    record_property("opened_s", ready_s)
    record_property("took_s", took_s)
    print(f"{key}: opened after {ready_s:.1f} s, over after {took_s:.1f} s")
    assert notebook.errors() == []
    assert holds(notebook.see("check")) == ["yes", "yes", "yes"]
    notebook.see("picture").locator(".js-plotly-plot svg.main-svg").first.wait_for()
    faults = inspect(notebook, tmp_path)
    assert attempt(notebooks, key).passed == (1, 2, 3)
    assert attempt(notebooks, key).closed
    assert notebook.complaints == []
    assert faults == []
    for width, theme in notebook.looks():
        folder = tmp_path / f"{width}-{theme.rsplit(maxsplit=1)[-1].lower()}"
        folder.mkdir()
        found = inspect(notebook, folder)
        assert found == [] or width < 700, (width, theme)  # in a narrow cell wide tables scroll
        assert barriers(notebook) == [], (width, theme)


@pytest.mark.long
@pytest.mark.parametrize("key", list(LESSONS))
def test_lesson_notebook_without_answers_shows_what_is_missing(
    notebooks: Notebooks, open_page: OpenPage, tmp_path: Path, record_property: RecordProperty, key: str
) -> None:
    with lab_of(key, notebooks.lab):
        began = time.monotonic()
        notebook = open_page(f"academy/{BOOKS[key]}")
        notebook.ready()
        notebook.run_to_end(RAN_S)
        record_property("took_s", time.monotonic() - began)
    assert notebook.errors() == []
    checked = notebook.see("check")
    assert holds(checked) == ["not yet"] * 3
    assert all(one.strip() for one in checked.locator("tbody tr td:nth-child(5)").all_inner_texts()), (
        "a next step is missing"
    )
    notebook.see("truth").get_by_text("Your prediction comes first").wait_for()
    notebook.see("picture").locator(".js-plotly-plot svg.main-svg").first.wait_for()
    faults = inspect(notebook, tmp_path)
    notebook.see("close").get_by_text(re.compile(r"^0 of 100 points")).wait_for()
    assert notebook.complaints == []
    assert faults == []


REPAIRS = {
    "L1": 'found = drlib.translate_offsets(lesson.file, "LEFT", "RIGHT", lesson.positions())\n'
    "lesson.commit({one.source.partition: one.translation.offset for one in found})",
    "L3": 'lesson.commit({row["partition"]: row["on RIGHT"] for row in lesson.translate().rows})\n'
    'drlib.publish_pointer(lesson.file, "RIGHT", lesson.application, topic=lesson.pointer_topic,\n'
    '                      remote_prefix="LEFT.", cutover=lesson.cutover(), timeout_s=4)',
}


@pytest.mark.long
@pytest.mark.parametrize(("key", "first"), [("L1", "write"), ("L3", "traffic")])
def test_lesson_notebook_reloaded_page_resumes_the_lesson(
    notebooks: Notebooks, open_page: OpenPage, key: str, first: str
) -> None:
    notebook = open_page(f"academy/{BOOKS[key]}")
    notebook.ready()
    notebook.type_into("predict", 'lesson.predict("40")')
    for step in ("parameters", "open", first, "predict", "break"):
        shown = notebook.run_step(step)
    broken, before = shown.locator("table").inner_text(), attempt(notebooks, key)
    assert (before.prediction, before.steps) == ("40", (first, "break"))

    _reloaded(notebook)
    where = notebook.run_step("open").locator(".jp-OutputArea-output").inner_text()
    assert "40" in where
    assert f"{first}, break" in where
    notebook.type_into("predict", 'lesson.predict("41")')
    notebook.run_step("predict").get_by_text("You wrote: 40").wait_for()
    assert notebook.run_step("break").locator("table").inner_text() == broken
    assert holds(notebook.run_step("check")).count("yes") == 0
    assert attempt(notebooks, key) == before
    assert notebooks.lab.clusters["LEFT"].alive is (key != "L3")

    notebook.type_into("repair", REPAIRS[key])
    notebook.run_step("repair")
    _reloaded(notebook, kernel_too=True)
    for step in ("open", first, "predict"):
        notebook.run_step(step)
    notebook.see("predict").get_by_text("You wrote: 40").wait_for()
    assert notebook.run_step("break").locator("table").inner_text() != broken
    assert holds(notebook.run_step("check")) == ["yes"] * 3
    assert notebooks.lab.clusters["LEFT"].alive is (key != "L3")
    notebook.run_step("close").get_by_text("100 of 100 points").wait_for()
    assert notebooks.lab.clusters["LEFT"].alive
    assert notebook.errors() == []


def _reloaded(notebook: NotebookPage, *, kernel_too: bool = False) -> None:
    notebook.save()
    if kernel_too:
        notebook.page.evaluate(f"() => {KERNEL}.restart()")
    notebook.page.reload()
    notebook.ready()
    if kernel_too:
        notebook.run_step("parameters")


@pytest.mark.long
def test_lesson_notebook_works_by_keyboard_alone(notebooks: Notebooks, open_page: OpenPage) -> None:
    notebook = open_page(f"academy/{BOOKS['L0']}")
    notebook.ready()
    keys = notebook.page.keyboard
    for _ in range(40):
        if notebook.page.evaluate("() => !!document.activeElement.closest('.jp-Notebook')"):
            break
        keys.press("Tab")
    typed = {"predict": 'lesson.predict("99")', "repair": "lesson.start_mirror()"}
    for step in [
        tags[0].partition("=")[2] if (tags := cell.metadata.get("tags")) else "" for cell in notebook.book().cells
    ]:
        if step in typed:
            keys.press("Enter")
            keys.press("Control+A")
            keys.type(typed[step])
        keys.press("Shift+Enter")
    notebook.wait_output("100 of 100 points", RAN_S)
    assert attempt(notebooks, "L0").passed == (1, 2, 3)
    assert attempt(notebooks, "L0").prediction == "99"
    assert progress.read(notebooks.project / "runs" / "academy").of("L0").best == 100
    assert notebook.errors() == []
    assert notebook.complaints == []
