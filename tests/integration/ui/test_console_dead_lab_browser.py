"""The console of a lab whose processes have ended, as after a restart of the machine: keys, remedies, and no kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from fix_browser import BEYOND, CHROMIUM, KERNEL, SPEC, NotebookPage, server, violations
from fix_engine import wait_for
from playwright.sync_api import Browser, expect, sync_playwright

from drlib.lab.brokers.broker import BrokerSpec
from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports
from drlib.ui.saved_widgets import NOT_LIVE, STATE

CELL = "import drlib\nconsole = drlib.console(lab_dir='../.lab')\nconsole"
FOCUS = "document.activeElement?.labels?.[0]?.textContent || document.activeElement?.textContent.trim()"


def broker(alias: str, root: str) -> tuple[BrokerSpec, ...]:
    return new_specs(alias, root, dict(zip(link_names(alias, 1), free_ports(2), strict=True)), 1)


def ended_lab(root: Path) -> None:
    """The folder of a lab of which nothing runs: the brokers' processes were registered and have ended."""
    root.mkdir()
    specs = {alias: broker(alias, str(root)) for alias in ("LEFT", "RIGHT")}
    state = {"clusters": {alias: [asdict(each) for each in of] for alias, of in specs.items()}, "extra": {}}
    (root / "state.json").write_text(json.dumps(state))
    lab = Lab.attach(root)
    lab.write_properties()
    for alias in specs:
        lab.registry.start(f"{alias}-1", ["/bin/true"], log=root / "ended.log")
    wait_for("they have ended", lambda: not any(process.alive for process in lab.status()), 10)


class Place(NamedTuple):
    browser: Browser
    address: str
    book: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    project = tmp_path_factory.mktemp("project")
    (project / "notebooks").mkdir()
    ended_lab(project / ".lab")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)], metadata={"kernelspec": SPEC})
    nbformat.write(book, project / "notebooks" / "00_start_here.ipynb")
    with server(project) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Place(browser, address, project / "notebooks" / "00_start_here.ipynb")
        browser.close()


def opened(place: Place, width: int = 1280) -> NotebookPage:
    page = place.browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(60_000)
    notebook = NotebookPage.watching(page)
    page.goto(place.address.replace("?", "?reset&", 1))
    return notebook


@pytest.mark.parametrize(
    ("width", "theme"),
    [(1280, "JupyterLab Light"), pytest.param(420, "JupyterLab Dark", marks=pytest.mark.long)],
)
def test_name_confirmation_takes_enter_and_escape(place: Place, tmp_path: Path, width: int, theme: str) -> None:
    notebook = opened(place, width)
    notebook.ready()
    notebook.theme(theme)
    page, confirm = notebook.page, notebook.page.locator(".drlib-console-confirm")
    if width < 700:
        notebook.command("application:toggle-left-area")
    notebook.run_to_end(60)
    page.locator(".drlib-console", has_text="not running").wait_for()
    kill = page.get_by_role("button", name="Kill…", exact=True)
    kill.focus()
    page.keyboard.press("Enter")
    expect(confirm).to_be_visible()
    page.wait_for_function(f"() => {FOCUS} === 'Its name'")
    page.keyboard.type("RIGHT")
    page.keyboard.press("Escape")
    expect(confirm).to_be_hidden()
    page.wait_for_function(f"() => {FOCUS} === 'Kill…'")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {FOCUS} === 'Its name'")
    page.keyboard.type("RIGHT")
    page.keyboard.press("Enter")
    notebook.wait_said("the name typed is 'RIGHT'")
    expect(confirm).to_be_visible()
    page.keyboard.press("Control+A")
    page.keyboard.type("LEFT")
    page.keyboard.press("Enter")
    notebook.wait_said("LEFT was not killed: none of its brokers is running")
    expect(confirm).to_be_hidden()
    page.get_by_role("button", name="Start LEFT", exact=True).wait_for()
    page.get_by_role("button", name="Start RIGHT", exact=True).wait_for()
    page.get_by_role("button", name="Browse records and positions").click()
    page.get_by_label("Topic", exact=True).fill("orders")
    page.get_by_role("button", name="Show records").click()
    notebook.wait_said("describing topics on LEFT got no answer")
    widget = page.locator(".drlib-console-widget")
    assert widget.evaluate(BEYOND) == []
    widget.screenshot(path=tmp_path / f"console-{width}.png")
    assert violations(page, ".drlib-console-widget") == []
    assert notebook.errors() == []
    assert notebook.complaints == []
    page.evaluate(f"() => {KERNEL}.shutdown()")
    page.close()


def test_notebook_that_is_opened_without_its_kernel_says_what_to_do(place: Place, tmp_path: Path) -> None:
    notebook = opened(place)
    notebook.ready()
    notebook.run_to_end(60)
    notebook.page.locator(".drlib-console", has_text="not running").wait_for()  # it changes no more
    notebook.save()
    kept = nbformat.read(place.book, as_version=4).metadata.widgets[STATE].state.values()
    assert {each.state.value for each in kept} == {NOT_LIVE}, "no state of widgets, which could hold records"
    notebook.page.reload()
    notebook.page.locator(".drlib-console", has_text="not running").wait_for()
    # JupyterLab may draw an output before it has the kernel's models; it writes that into the browser's log, and draws again.
    expect(notebook.page.get_by_text("model not found")).to_have_count(0)
    notebook.page.get_by_role("button", name="Kill…", exact=True).click()
    notebook.page.locator(".drlib-console-confirm").wait_for()  # by the kernel: the widget is live
    notebook.page.keyboard.press("Escape")
    assert [said for said in notebook.complaints if "widget model not found" not in said] == []
    notebook.save()
    notebook.page.evaluate(f"() => {KERNEL}.shutdown()")
    notebook.page.close()
    again = opened(place)
    again.page.get_by_text(NOT_LIVE).wait_for()
    again.page.screenshot(path=tmp_path / "again.png")
    assert again.page.get_by_text("model not found").count() == 0
    assert again.complaints == []
    again.run_to_end(60)
    again.page.locator(".drlib-console", has_text="not running").wait_for()
    assert again.page.get_by_text(NOT_LIVE).count() == 0
    again.page.evaluate(f"() => {KERNEL}?.shutdown()")
    again.page.close()
