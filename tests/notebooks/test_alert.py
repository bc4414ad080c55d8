"""Alerts of a run: of its steps while its notebook runs, and of missed objectives; sent once, without the secret address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tiny_notebook import tiny_runbook

from drlib.runbook.execution.execute import RunResult, execute
from drlib.runbook.file.model import Alert, During
from drlib.runs import folder

# Begins a step, and ends it only when its beginning was posted.
STEP = """
import time
from pathlib import Path
from drlib.runs.journal import JOURNAL, DrillJournal
journal = DrillJournal(Path(run_dir) / JOURNAL)
journal.write("step-started", step="translate")
until = time.monotonic() + 30
while not Path({posted!r}).exists():
    assert time.monotonic() < until, "no alert arrived while the notebook ran"
    time.sleep(0.05)
journal.write("step-succeeded", step="translate")
journal.close()
"""
MISS = "from drlib.errors import ObjectiveMissed\nraise ObjectiveMissed('it missed', 'it was slow', 'Look why.')"


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.posts: list[tuple[str, dict[str, object]]] = []
        self.posted: Path | None = None  # is made at the first POST


class Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, body))
        if self.server.posted is not None:
            self.server.posted.touch()
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def run(tmp_path: Path, cell: str, url: str, during: During = During.NOTHING) -> RunResult:
    book = tiny_runbook(tmp_path, cell).model_copy(update={"alert": Alert(url=url, during=during)})
    return execute(book, {}, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=lambda *_: None)


def test_alert_is_sent_once_and_its_secret_address_is_not_stored(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILL_HOOK", f"http://127.0.0.1:{listener.server_address[1]}/t0ken")
    result = run(tmp_path, MISS, "${env:DRILL_HOOK}")
    assert (result.exit_code, result.undelivered) == (7, "")
    ((path, body),) = listener.posts
    assert path == "/t0ken"
    assert body["exit_code"] == 7
    assert "it missed" in str(body["error"])
    kept = json.loads((result.folder / "alert.json").read_text())
    assert (kept["outcome"], kept["target"]) == ("ok", "${env:DRILL_HOOK}")
    assert folder.differences(result.folder) == ()
    for file in result.folder.rglob("*"):
        assert not file.is_file() or b"t0ken" not in file.read_bytes()


def test_alert_delivery_failure_is_reported_and_keeps_the_result(tmp_path: Path, listener: Listener) -> None:
    listener.status = 507
    result = run(tmp_path, MISS, f"http://127.0.0.1:{listener.server_address[1]}/x")
    assert result.exit_code == 7
    assert "refused, status 507" in result.undelivered
    (tmp_path / "2").mkdir()
    result = run(tmp_path / "2", MISS, "${env:NOT_SET_ANYWHERE}")
    assert "NOT_SET_ANYWHERE" in result.undelivered
    assert json.loads((result.folder / "alert.json").read_text())["outcome"] == "not done"


def test_alert_of_a_step_arrives_while_the_notebook_runs(tmp_path: Path, listener: Listener) -> None:
    listener.posted = tmp_path / "posted"
    cell = STEP.format(posted=str(listener.posted))
    result = run(tmp_path, cell, f"http://127.0.0.1:{listener.server_address[1]}/steps", During.STEPS)
    assert "no alert arrived" not in result.error
    during = [body for _, body in listener.posts if "event" in body]
    assert [(body["event"], body["step"]) for body in during] == [
        ("step-started", "translate"),
        ("step-succeeded", "translate"),
    ]
    assert {body["runbook"] for body in during} == {"tiny"}
    kept = json.loads((result.folder / "alerts-during.json").read_text())
    assert [one["outcome"] for one in kept] == ["ok", "ok"]
    assert folder.differences(result.folder) == ()
