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
from own_processes import processes_of
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.ui.figures import dark
from drlib.ui.jupyterlab import WRAPPED, JupyterLab
from drlib.ui.saved_widgets import NOT_LIVE, STATE, VIEW


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


def test_jupyterlab_saves_a_sentence_for_each_widget_and_serves_the_dark_figures(project: Path) -> None:
    outputs = [nbformat.v4.new_output("display_data", {VIEW: {"model_id": "one"}})]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("console", outputs=outputs)])
    with JupyterLab(project, browser=False, state=project / "saving") as lab:
        at = urlsplit(lab.url)
        request = urllib.request.Request(
            f"http://{at.netloc}/api/contents/notebooks/widgets.ipynb?{at.query}",
            json.dumps({"type": "notebook", "format": "json", "content": book}).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 201
        styles = get(f"http://{at.netloc}/custom/custom.css")[1].decode()
        page = get(lab.url)[1].decode()
    saved = nbformat.read(project / "notebooks" / "widgets.ipynb", as_version=4)
    assert saved.metadata.widgets[STATE].state.one.state.value == NOT_LIVE
    assert styles == dark.style_sheet() + WRAPPED
    assert "custom/custom.css" in page


def test_jupyterlab_on_a_taken_port_fails_and_leaves_nothing(project: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        lab = JupyterLab(project, port=other.getsockname()[1], browser=False, state=project / "own")
        with pytest.raises(UsageError, match="is taken"):
            lab.start()
    assert processes_of(project / "own") == []
