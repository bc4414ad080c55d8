"""Secrets stay in the processes that need them: drills whose hooks succeed, fail and are refused.

Every secret is a canary: a password, the path of a webhook, a header, a body, a variable. They are searched in all
that was written, on all command lines, and in the environments of processes that need none of them.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from canary_search import Canaries, Watch
from tiny_notebook import write_notebook

from drlib.lab.brokers.security import USER
from drlib.lab.ports import free_ports

CANARIES = Canaries.of(USER, "webhook", "header", "body", "variable", "written")
ECHO = "import os, sys; print(sorted(os.environ.items())); sys.exit(int(sys.argv[1]))"
CELL = "import drlib\ndrill = drlib.open_drill(runbook, run_dir, pager=pager)\ndrill.plan()"
PARAMETERS = 'run_dir: str = ""\nrunbook: str = ""\npager: str = ""\nlabels: list[str] = []\n'


def may_have(line: bytes) -> tuple[str, ...]:
    """Canaries that a process may have in its environment: all in drlib's own Python, one in the program that gets it."""
    if b"drlib.cli" in line or b"ipykernel" in line:
        return tuple(CANARIES.values)
    return ("variable",) if ECHO.encode() in line else ()


class Endpoint(http.server.ThreadingHTTPServer):
    """A receiver of hooks that quotes what it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posts: list[tuple[str, dict[str, str], str]] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posts.append((self.path, dict(self.headers), body))
        self._answer(200, f"{self.path} {dict(self.headers)} {body}")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


@dataclass
class Place:
    """The folders of the test: `given` holds what the operator has written, with secrets; the rest is drlib's."""

    root: Path
    endpoint: Endpoint
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    def __post_init__(self) -> None:
        for folder in (self.given, self.logs, self.runs):
            folder.mkdir()
        self.topic = f"orders-{self.tag}"
        self.source, self.target = f"SRC{self.tag}", f"DST{self.tag}"

    @property
    def given(self) -> Path:
        return self.root / "given"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def away(self) -> Path:
        """A mirror's file whose clusters do not answer, for a drill that asks nothing of them."""
        login = f'username="{USER}" password="{CANARIES[USER]}"'
        jaas = f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};"
        lines = [f"clusters = {self.source}, {self.target}", f"{self.source}->{self.target}.enabled = true"]
        for alias, port in zip((self.source, self.target), free_ports(2), strict=True):
            lines += [f"{alias}.bootstrap.servers = 127.0.0.1:{port}", f"{alias}.security.protocol = SASL_PLAINTEXT"]
            lines += [f"{alias}.sasl.mechanism = SCRAM-SHA-512", f"{alias}.sasl.jaas.config = {jaas}"]
        path = self.given / "away.properties"
        path.write_text("\n".join(lines) + "\n")
        return path

    def runbook(self) -> Path:
        """A drill that calls addresses and a program, and an alert."""
        header = ["X-Key: ${env:CANARY_HEADER}", "Authorization: Bearer ${env:CANARY_HEADER}"]
        steps = [
            ("tell", "hook.http", {"url": "${pager}", "headers": header, "body": ["key=${env:CANARY_BODY}", "run=1"]}),
            (
                "written",
                "hook.http",
                {"url": self.endpoint.url(f"services/T0/{CANARIES['written']}")},
            ),
            (
                "call",
                "hook.command",
                {"argv": [sys.executable, "-c", ECHO, "0"], "environment": ["VALUE=${env:CANARY_VARIABLE}"]},
            ),
        ]
        document = {
            "name": "hooks",
            "title": "Hooks",
            "notebook": "hooks.ipynb",
            "alert": {"url": "${env:CANARY_WEBHOOK}", "headers": {"X-Key": "${env:CANARY_HEADER}"}},
            "drill": {
                "flow": f"{self.source}->{self.target}",
                "mode": "emergency",
                "lease": False,
                "steps": [
                    {
                        "name": name,
                        "title": name,
                        "action": action,
                        "arguments": arguments,
                        "undoable": False,
                        "danger": "none",
                    }
                    for name, action, arguments in steps
                ],
            },
        }
        cells = [
            ("open", CELL),
            *((name, f'drill.until("{name}")') for name, _, _ in steps),
            ("finish", "drill.finish()"),
        ]
        write_notebook(self.given / "hooks.ipynb", *cells, parameters=PARAMETERS)
        path = self.given / "hooks.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def environment(self, **more: str) -> dict[str, str]:
        """All secrets as drlib gets them."""
        return {
            **os.environ,
            "CANARY_WEBHOOK": self.endpoint.url(CANARIES["webhook"]),
            "CANARY_HEADER": CANARIES["header"],
            "CANARY_BODY": CANARIES["body"],
            "CANARY_VARIABLE": CANARIES["variable"],
            **more,
        }

    def drlib(self, name: str, *arguments: str | Path, code: int, **more: str) -> str:
        """Run the command to its end; what it printed is kept in a log."""
        argv = [sys.executable, "-m", "drlib.cli", *map(str, arguments)]
        done = subprocess.run(
            argv, env=self.environment(**more), cwd=self.logs, capture_output=True, text=True, timeout=170, check=False
        )
        said = done.stdout + done.stderr
        (self.logs / f"{name}.log").write_text(said)
        assert done.returncode == code, f"{done.returncode}: {said}"
        return said

    def run(self, name: str, *arguments: str | Path, code: int, **more: str) -> str:
        return self.drlib(name, "run", *arguments, "--runs-dir", self.runs, code=code, **more)


REPORTED = {"executed.ipynb", "report.html", "scorecard.json", "plan.json", "run.json", "alert.json", "journal.jsonl"}


def test_drills_leave_no_secret_behind(tmp_path: Path, endpoint: Endpoint) -> None:
    place = Place(tmp_path, endpoint)
    with Watch(CANARIES, may_have) as watch:
        drilled(place, place.away())
    assert [line for line in watch.lines if "ipykernel" in line]
    assert watch.leaks == set()
    assert {path.name for path in place.runs.rglob("*")} >= REPORTED
    assert CANARIES.found_below(tmp_path, allowed=[place.given]) == []


def drilled(place: Place, file: Path) -> None:
    """A drill whose hooks succeed, one whose program fails, and one that is given a secret as a parameter."""
    book = place.runbook()
    on_clusters = (file, "--skip-gate", "a test")
    pager = "pager=${env:CANARY_WEBHOOK}"
    place.run("drill", book, *on_clusters, "-p", pager, code=0)
    paths = [path for path, _, _ in place.endpoint.posts]
    assert paths == [f"/{CANARIES['webhook']}", f"/services/T0/{CANARIES['written']}"]
    _, headers, body = place.endpoint.posts[0]
    assert (headers["X-Key"], headers["Authorization"]) == (CANARIES["header"], f"Bearer {CANARIES['header']}")
    assert json.loads(body)["key"] == CANARIES["body"]
    book.write_text(book.read_text().replace('- "0"', '- "3"').replace("- '0'", "- '3'"))
    place.run("failed-drill", book, *on_clusters, "-p", pager, code=5)
    assert place.endpoint.posts[-1][0] == f"/{CANARIES['webhook']}"
    assert json.loads(place.endpoint.posts[-1][2])["exit_code"] == 5
    before = len(list(place.runs.iterdir()))
    for given in (f"pager=http://h/{CANARIES['webhook']}", f"labels=Authorization: Bearer {CANARIES['header']}"):
        # as an argument it is on the command line: the refusal is asked of the function, not of a process
        assert "looks like a secret" in refused(book, given)
    assert len(list(place.runs.iterdir())) == before


def refused(book: Path, pair: str) -> str:
    from drlib.errors import UsageError
    from drlib.runbook.file import parameters
    from drlib.runbook.file.model import load

    with pytest.raises(UsageError) as met:
        parameters.parse([pair], parameters.declared(load(book).notebook))
    assert CANARIES.found_in(str(met.value).encode()) == []
    return str(met.value)
