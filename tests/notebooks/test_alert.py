"""Alerts of a run that missed its objectives: sent once, recorded, without the secret address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tiny_notebook import tiny_runbook

from drlib.runbook.execution.execute import RunResult, execute
from drlib.runbook.file.model import Alert
from drlib.runs import folder

MISS = "from drlib.errors import ObjectiveMissed\nraise ObjectiveMissed('it missed', 'it was slow', 'Look why.')"


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.posts: list[tuple[str, dict[str, object]]] = []


class Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, body))
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


def run(tmp_path: Path, cell: str, url: str) -> RunResult:
    book = tiny_runbook(tmp_path, cell).model_copy(update={"alert": Alert(url=url)})
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
