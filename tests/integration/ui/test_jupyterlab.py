"""`drlib notebook` as a program: it starts, serves the first notebook, asks nothing of anybody, and ends on Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from fix_browser import CHROMIUM, KERNEL, SPEC, NotebookPage, server
from own_processes import processes_of
from playwright.sync_api import Browser, sync_playwright
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.ui.jupyterlab import JupyterLab


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("project")
    (place / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "00_start_here.ipynb", place / "notebooks")
    return place


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_jupyterlab_serves_the_first_notebook_by_token_and_ends_on_ctrl_c(project: Path) -> None:
    state = project / "state"
    program = subprocess.Popen(
        [sys.executable, "-m", "drlib.cli", "notebook", "--no-browser"],
        cwd=project,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        at = urlsplit(url)
        assert (at.hostname, at.path) == ("127.0.0.1", "/lab/tree/notebooks/00_start_here.ipynb"), program.stderr
        assert get(url)[0] == 200
        base = f"http://{at.netloc}"
        assert get(f"{base}/api/contents")[0] == 403  # without the token
        reported = get(f"{base}/lab/api/settings/@jupyterlab/apputils-extension:notification?{at.query}")[1]
        assert json.loads(json.loads(reported)["raw"] or "{}").get("fetchNews", "false") == "false"
        assert json.loads(reported)["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert processes_of(state), "the server names its settings folder"
    finally:
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=30)
    assert program.returncode == 0, said
    assert "No lab is running in .lab" in said
    assert processes_of(state) == []


def test_jupyterlab_on_a_taken_port_fails_and_leaves_nothing(project: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        lab = JupyterLab(project, port=other.getsockname()[1], browser=False, state=project / "own")
        with pytest.raises(UsageError, match="is taken"):
            lab.start()
    assert processes_of(project / "own") == []


def opened(browser: Browser, address: str) -> NotebookPage:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(60_000)
    page.goto(address)
    return NotebookPage(page)


def test_notebook_that_is_opened_without_its_kernel_says_so_in_place_of_the_console(tmp_path: Path) -> None:
    """No cluster answers: the console is there all the same."""
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    (tmp_path / "notebooks").mkdir()
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\nA->B.enabled = true\n"
    )
    source = f"import drlib\nconsole = drlib.console({str(file)!r})\nconsole"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)], metadata={"kernelspec": SPEC})
    nbformat.write(book, tmp_path / "notebooks" / "00_start_here.ipynb")
    with server(tmp_path) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        notebook = opened(browser, address)
        notebook.ready()
        notebook.run_to_end(60)
        notebook.page.locator(".drlib-console", has_text="PRODUCTION").wait_for()
        notebook.save()
        notebook.page.evaluate(f"() => {KERNEL}.shutdown()")
        notebook.page.close()
        again = opened(browser, address).page
        again.get_by_text("The kernel that drew this has ended. Run the cell again.").wait_for()
        again.screenshot(path=tmp_path / "again.png")
        assert again.get_by_text("model not found").count() == 0
        browser.close()
    saved = nbformat.read(tmp_path / "notebooks" / "00_start_here.ipynb", as_version=4)
    assert "widgets" not in saved.metadata, "no state of widgets, which could hold records"
