"""JupyterLab as a user has it: `drlib notebook` on a copy of the project, a real lab beside it, and a real browser.

One server and one browser a module; each test has a page of its own. What a page complains about is kept, so that a test
can say there was nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from drlib.lab import clocks
from drlib.lab.disk import Disk
from drlib.lab.lab import Lab

RecordProperty = Callable[[str, object], None]

ROOT = Path(__file__).parents[1]
CHROMIUM = Path("/usr/bin/chromium")
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
SHOW = """async number => {
  const notebook = jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = number;
  await notebook.scrollToItem(number, 'start');
}"""
# The texts that reach beyond the right edge of an element that is too narrow for its content.
BEYOND = """e => {
  if (e.scrollWidth <= e.clientWidth + 1) return [];
  const edge = e.getBoundingClientRect().left + e.clientWidth + 1, found = [];
  const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) {
    range.selectNodeContents(texts.currentNode);
    if (range.getBoundingClientRect().right > edge) found.push(texts.currentNode.textContent);
  }
  return [...found.slice(0, 5), `content is ${e.scrollWidth} px wide in ${e.clientWidth}`];
}"""
# Rules about a whole page, which is JupyterLab's: a notebook's cells and outputs cannot meet or break them.
SHELL_RULES = ("region", "landmark-one-main", "page-has-heading-one", "bypass")
# Rules about JupyterLab's own elements, by class: an output that is wider than its cell scrolls, and browsers reach it by Tab.
SHELL_ELEMENTS = {"scrollable-region-focusable": "jp-OutputArea-output"}
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
WIDTHS = (1280, 420)
SPEC = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def violations(page: Page, context: str) -> list[tuple[str, str, str]]:
    """What the accessibility checker finds inside `context`, of any impact: rule, impact, element."""
    rules = {rule: {"enabled": False} for rule in SHELL_RULES}
    found = Axe().run(page, context=context, options={"rules": rules}).response["violations"]
    every = [(rule["id"], str(rule["impact"]), node["html"][:300]) for rule in found for node in rule["nodes"]]
    return [
        (rule, impact, html)
        for rule, impact, html in every
        if SHELL_ELEMENTS.get(rule, "\n") not in html.partition(">")[0]
    ]


@dataclass
class Notebooks:
    """A server on `project`, whose lab is in `.lab`. `address` has the token."""

    project: Path
    lab: Lab
    address: str
    browser: Browser
    pages: list[NotebookPage] = field(default_factory=list)

    def open(self, notebook: str = "00_start_here.ipynb", *, width: int = 1280) -> NotebookPage:
        """A page with the notebook, its kernel not waited for."""
        page = self.browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(40_000)
        found = NotebookPage.watching(page)
        # reset: what earlier pages had open would be there as well, hidden behind this one
        page.goto(self.address.replace("00_start_here.ipynb?", f"{notebook}?reset&"))
        self.pages.append(found)
        return found

    def write(self, name: str, *cells: str) -> str:
        """A notebook of our own; its name."""
        book = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(text) for text in cells],
            metadata={"kernelspec": SPEC, "language_info": {"name": "python"}},
        )
        nbformat.write(book, self.project / "notebooks" / name)
        return name


@dataclass
class NotebookPage:
    page: Page
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def watching(cls, page: Page) -> NotebookPage:
        """Of a page that is empty yet, with all that it complains about from now on."""
        found = cls(page)
        page.on("console", lambda m: found.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        return found

    def ready(self) -> None:
        """Until the kernel listens."""
        self.page.wait_for_function(f"(k => k && k.connectionStatus === 'connected' && k.status === 'idle')({KERNEL})")

    def command(self, name: str) -> None:
        """Begin one of JupyterLab's commands, and do not wait for its end."""
        self.page.evaluate("name => { void jupyterapp.commands.execute(name); }", name)

    def run_next(self) -> None:
        """The active cell, and go to the next one."""
        self.command("notebook:run-cell-and-select-next")

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def save(self) -> None:
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")

    def said(self) -> str:
        """What the console's last line says."""
        return str(self.page.locator(".drlib-console-said").inner_text())

    def press(self, label: str) -> None:
        self.page.get_by_role("button", name=label, exact=True).click()

    def wait_said(self, words: str) -> None:
        self.page.locator(".drlib-console-said", has_text=words).wait_for()

    def run_to_end(self, seconds: float) -> None:
        """All cells, and wait for the last one's end."""
        self._ran("notebook:run-all-cells", seconds)

    def run_step(self, step: str, seconds: float = 60.0) -> Locator:
        """The cell of `step`, and wait for its end."""
        cell = self.see(step)
        self._ran("notebook:run-cell", seconds)
        return cell

    def type_into(self, step: str, text: str) -> None:
        """Replace the text in the cell of `step`, as a typing user does."""
        self.see(step).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def _ran(self, command: str, seconds: float) -> None:
        self.page.evaluate(
            "name => { window.drlibRan = false; const ran = () => { window.drlibRan = true; };"
            " jupyterapp.commands.execute(name).then(ran, ran); }",
            command,
        )
        self.page.wait_for_function("window.drlibRan", timeout=seconds * 1000)

    def theme(self, name: str) -> None:
        """JupyterLab Light or JupyterLab Dark; the choice outlives the page."""
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        self.page.locator(f"body[data-jp-theme-name='{name}']").wait_for(state="attached")

    def looks(self) -> Iterator[tuple[int, str]]:
        """Each width in the light and the dark theme, as (width, theme); wide and light again at the end.

        At the widths of a telephone without the file browser, which would cover most of it.
        """
        self.command("application:toggle-left-area")
        for theme in (DARK, LIGHT):
            self.theme(theme)
            for width in WIDTHS:
                self.page.set_viewport_size({"width": width, "height": 900})
                yield width, theme
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        self.command("application:toggle-left-area")

    def book(self) -> nbformat.NotebookNode:
        """The notebook as the page has it now. Not all of it need be in the DOM."""
        book: nbformat.NotebookNode = nbformat.from_dict(
            self.page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON()")
        )
        return book

    def see(self, step: str) -> Locator:
        """The cell of `step` (tagged drlib:step=..., or parameters), scrolled to and made the active one."""
        wanted = {step, f"drlib:step={step}"}
        return self.cell(
            next(n for n, cell in enumerate(self.book().cells) if wanted & set(cell.metadata.get("tags", ())))
        )

    def cell(self, number: int) -> Locator:
        """The cell with this number, from 0, scrolled to and made the active one."""
        self.page.evaluate(SHOW, number)
        return self.page.locator(".jp-Notebook:visible .jp-Cell").nth(number)

    def wait_output(self, text: str, seconds: float = 90.0) -> None:
        """Until a cell shows `text`; what was shown instead is in the failure."""
        try:
            self.page.locator(".jp-OutputArea-output", has_text=text).first.wait_for(timeout=seconds * 1000)
        except PlaywrightTimeout:
            shown = [str(one)[:1000] for cell in self.book().cells for one in cell.get("outputs", ())]
            raise AssertionError(f"{text!r} is not shown within {seconds:g} s, but: {shown}") from None

    def errors(self) -> list[str]:
        """Tracebacks in the notebook, in view or not."""
        outputs = [one for cell in self.book().cells for one in cell.get("outputs", ())]
        raised = [f"{one.ename}: {one.evalue}" for one in outputs if one.output_type == "error"]
        reported = [one.text for one in outputs if one.output_type == "stream" and one.name == "stderr"]
        return raised + [text for text in reported if "Traceback" in text or "Error" in text]


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebooks]:
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    project = tmp_path_factory.mktemp("notebooks")
    _copy_notebooks(project)
    with Lab(project / ".lab") as lab, server(project) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield Notebooks(project, lab, address, browser)
        finally:
            browser.close()


def _copy_notebooks(project: Path) -> None:
    for folder in ("notebooks", "runbooks"):
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)


class server:  # noqa: N801  # a context manager that reads as one
    """`drlib notebook` in `project`; the address it prints."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._program: subprocess.Popen[str] | None = None

    def __enter__(self) -> str:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "drlib.cli", "notebook", "--no-browser", "--", "--expose-app-in-browser"],
            cwd=self._project,
            env={**os.environ, "XDG_STATE_HOME": str(self._project / "state"), "PYTHONPATH": _path()},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._program.stdout is not None
        return self._program.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self._program.send_signal(signal.SIGINT)
            self._program.communicate(timeout=30)


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


OpenPage = Callable[..., NotebookPage]


@pytest.fixture
def open_page(notebooks: Notebooks, tmp_path: Path) -> Iterator[OpenPage]:
    """Pages that are closed after the test, their kernels ended; `end.png` is what the last one looked like.

    Before a test begins, every cluster runs, with room and right clocks, every link is whole, and the notebooks are those of
    the repository: JupyterLab saves what an earlier test left open, with outputs of widgets that ended with their kernel.
    """
    _copy_notebooks(notebooks.project)
    notebooks.lab.proxy.clear()
    clocks.set_all_right(notebooks.lab.root)
    for alias, cluster in notebooks.lab.clusters.items():
        Disk(notebooks.lab, alias).free()
        cluster.resume()
        if not cluster.alive:
            cluster.restart()
    first = len(notebooks.pages)
    yield notebooks.open
    for one in notebooks.pages[first:]:
        one.page.screenshot(path=tmp_path / "end.png")
        one.page.evaluate(f"() => {KERNEL}?.shutdown()")
        one.page.close()
    del notebooks.pages[first:]
