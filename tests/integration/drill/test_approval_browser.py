"""An approval given at the board, in a real browser on a real lab, while the cell that needs it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from fix_browser import BEYOND, Notebooks, OpenPage, violations
from fix_engine import wait_for
from testbed_actions import KERNEL

from drlib.drill.run import approvals, planning
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

SAID = ".jp-OutputArea-output"
RING = """() => { const style = getComputedStyle(document.activeElement);
  return style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth); }"""
OPENED = KERNEL + "import drlib\n\ndrill = drlib.open_drill('{book}', '{run}', lab_dir='../.lab')\ndrill.board()"


def written(notebooks: Notebooks, name: str) -> tuple[str, Path]:
    """A drill of three steps on the lab, the second of which waits for approval: as its notebook, and its run's folder."""
    topics = {"first": False, "second": True, "third": False}
    book, run = notebooks.project / f"{name}.yaml", notebooks.project / "runs" / name
    steps = [
        {
            "name": step,
            "title": f"Topic {name}-{step} is made",
            "action": "topic.create",
            "arguments": {"cluster": "RIGHT", "topic": f"{name}-{step}", "partitions": 1},
            "approval": approval,
        }
        for step, approval in topics.items()
    ]
    drill = {"flow": "LEFT->RIGHT", "mode": "practice", "rollback": "default", "lease": False, "steps": steps}
    book.write_text(
        yaml.safe_dump({"name": name, "title": name, "notebook": f"notebooks/{name}.ipynb", "drill": drill})
    )
    opened = OPENED.format(book=book, run=run)
    return notebooks.write(f"{name}.ipynb", opened, "drill.until('third')", "drill.finish()"), run


def done(run: Path) -> list[str]:
    lines = journal.read(run / JOURNAL) if (run / JOURNAL).exists() else ()
    return [str(line.data["step"]) for line in lines if line.event == "step-succeeded"]


@pytest.mark.long
def test_waiting_cell_continues_after_the_click(notebooks: Notebooks, open_page: OpenPage, tmp_path: Path) -> None:
    name, run = written(notebooks, "pressed")
    notebook = open_page(name)
    notebook.ready()
    notebook.run_all()
    page = notebook.page
    page.get_by_text("Its cell is waiting and continues by itself").wait_for()
    assert done(run) == ["first"]
    board = page.get_by_role("region", name="Board of the drill")
    buttons = page.locator(SAID).filter(has=page.get_by_label("Approved by")).first
    for width, theme in notebook.looks():
        buttons.scroll_into_view_if_needed()
        page.screenshot(path=tmp_path / f"waits-{width}-{theme.rsplit(maxsplit=1)[-1].lower()}.png")
        assert [*board.evaluate(BEYOND), *buttons.evaluate(BEYOND)] == [], (width, theme)
        assert violations(page, SAID) == [], (width, theme)
    page.get_by_label("Approved by").focus()  # the rest by keyboard
    page.keyboard.press("Control+A")
    page.keyboard.type("Ada Lovelace")
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.textContent.trim()") == "Approve second":
            break
    assert page.evaluate(RING) >= 2, "nothing shows that the button has the focus"
    page.keyboard.press("Enter")
    page.locator(SAID, has_text="Verdict: pass").wait_for()  # and the cells behind it were run as well
    page.screenshot(path=tmp_path / "passed.png")
    assert done(run) == ["first", "second", "third"]
    assert approvals.read(run, planning.read(run).hash).by == {"second": "Ada Lovelace"}
    assert notebook.errors() == []


@pytest.mark.long
def test_aborted_at_the_board_the_cell_ends_with_the_drill(notebooks: Notebooks, open_page: OpenPage) -> None:
    name, run = written(notebooks, "aborted")
    notebook = open_page(name)
    notebook.ready()
    notebook.run_all()
    notebook.page.get_by_text("Its cell is waiting and continues by itself").wait_for()
    notebook.press("Abort the drill")
    wait_for("it has ended", lambda: journal.read(run / JOURNAL)[-1].event == "run-ended", 30)
    assert journal.read(run / JOURNAL)[-1].data["detail"] == "aborted"
    notebook.page.get_by_text("by the board's button").first.wait_for()
    assert done(run) == ["first"]
