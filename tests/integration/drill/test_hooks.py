"""Hooks: real processes that succeed, fail, hang and flood, and a real HTTP server that does likewise."""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from deadline import Deadline

from drlib.drill.actions.hooks.hook import KEPT, CommandHook, Evidence, HookContext, HttpHook, Outcome
from drlib.drill.actions.hooks.run import run
from drlib.errors import UsageError
from drlib.lab.ports import free_ports
from drlib.runs.journal import DrillJournal, read

CONTEXT = HookContext("run-7", "LEFT->RIGHT", "RIGHT")


def command(code: str, *arguments: str, **more: object) -> CommandHook:
    return CommandHook(name="hook", argv=(sys.executable, "-c", code, *arguments), **more)  # type: ignore[arg-type]


def test_command_hook_gets_context_and_no_shell(tmp_path: Path) -> None:
    reported = "import os, sys; print(*(os.environ['DRLIB_' + n] for n in ('RUN_ID', 'FLOW', 'ACTIVE')), *sys.argv[1:])"
    found = run(command(reported, "$HOME; echo `id`", "*"), CONTEXT)
    assert (found.outcome, found.code, found.attempts, found.reason) == (Outcome.OK, 0, 1, "")
    assert found.output == "run-7 LEFT->RIGHT RIGHT $HOME; echo `id` *\n"
    journal = DrillJournal(tmp_path / "journal.jsonl")
    journal.write("hook", **found.scalars())
    journal.close()
    assert read(tmp_path / "journal.jsonl")[0].data["outcome"] == "ok"


def test_command_hook_gets_named_variables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_PASSWORD", "API_KEY", "KUBECONFIG"):
        monkeypatch.setenv(name, f"canary-{name}")
    monkeypatch.setenv("DRLIB_RUNS", "ours")
    every = "import json, os; print(json.dumps(dict(os.environ)))"
    found = run(command(every, environment={"KUBECONFIG": "${env:KUBECONFIG}", "MODE": "fast"}), CONTEXT)
    got = json.loads(found.output)
    assert {"PATH", "HOME", "DRLIB_RUN_ID", "DRLIB_RUNS"} <= set(got)
    assert got["MODE"] == "fast"
    assert got["KUBECONFIG"] == "[hidden]"  # it was there, and is hidden in the output
    assert not {"KAFKA_PASSWORD", "API_KEY"} & set(got)
    assert "canary" not in json.dumps(found.scalars())


def test_command_hook_unexpected_exit_code_is_refused() -> None:
    fails = "import sys; print('no', file=sys.stderr); sys.exit(3)"
    found = run(command(fails), CONTEXT)
    assert (found.outcome, found.code, found.output) == (Outcome.REFUSED, 3, "no\n")
    assert found.reason == "exit code 3, expected 0"
    assert run(command(fails, expected=(0, 3)), CONTEXT).ok


def test_command_hook_missing_program_is_not_done() -> None:
    found = run(CommandHook(name="hook", argv=("/nowhere/program",)), CONTEXT)
    assert (found.outcome, found.code) == (Outcome.NOT_DONE, None)
    assert "No such file" in found.reason


def test_command_hook_timeout_ends_its_processes_and_is_unknown(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, signal, threading\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'])\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()} {child.pid}')\n"
        "print('begun', flush=True)\n"
        "threading.Event().wait()\n"
    )
    started = time.monotonic()
    found = run(command(code, str(pids), timeout_s=2.0), CONTEXT)
    assert time.monotonic() - started < 15
    assert (found.outcome, found.code, found.output) == (Outcome.UNKNOWN, None, "begun\n")
    for pid in map(int, pids.read_text().split()):
        deadline = Deadline(5)
        while _runs(pid):
            assert not deadline.passed, f"{pid} still runs"
            time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_hook_output_flood_is_cut_and_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAGER_TOKEN", "tok-123456")
    (tmp_path / "secrets.properties").write_text("key=from-a-file\n")
    given = {"TOKEN": "Bearer ${env:PAGER_TOKEN}", "KEY": f"${{file:{tmp_path}/secrets.properties:key}}"}
    flood = "import os; print('a' * 4090 + os.environ['TOKEN'], 'x' * 300000, os.environ['TOKEN'], os.environ['KEY'])"
    found = run(command(flood, environment=given), CONTEXT)
    assert found.ok
    assert found.left_out > 290_000
    assert len(found.output) <= 2 * KEPT + 20
    for secret in ("tok-1", "123456", "from-a-file"):
        assert secret not in json.dumps(found.scalars())
    assert found.output.endswith("x Bearer [hidden] [hidden]\n")
    assert dict(found.sent) == {"TOKEN": "[hidden] ${env:PAGER_TOKEN}", "KEY": given["KEY"]}


def test_hook_only_idempotent_is_retried(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="may not be tried 3 times"):
        command("", attempts=3)
    counter = tmp_path / "tries"
    third = (
        "import pathlib, sys; p = pathlib.Path(sys.argv[1]); n = int(p.read_text()) + 1 if p.exists() else 1;"
        "p.write_text(str(n)); sys.exit(n < 3)"
    )
    found = run(command(third, str(counter), attempts=5, idempotent=True), CONTEXT)
    assert (found.outcome, found.attempts, counter.read_text()) == (Outcome.OK, 3, "3")
    counter.unlink()
    found = run(command(third, str(counter), attempts=2, idempotent=True), CONTEXT)
    assert (found.outcome, found.attempts, counter.read_text()) == (Outcome.REFUSED, 2, "2")


def test_hook_impossible_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="as an argument"):
        CommandHook(name="hook", argv=("page", "--token=${env:T}"))
    with pytest.raises(UsageError, match="has no command"):
        CommandHook(name="hook", argv=())
    for header in (
        "Authorization",
        "Cookie",
        "X-Auth",
        "api-key",
        "X-Auth-Key",
        "apikey",
        "X-Hook",
        "Sign",
        "ACCEPT-KEY",
    ):
        with pytest.raises(UsageError, match=f"{header} is written out") as refused:
            HttpHook(name="hook", url="https://h/", headers={header: "canary"})
        assert "canary" not in str(refused.value)
    assert HttpHook(name="hook", url="https://h/", headers={"Content-Type": "text/plain", "ACCEPT": "*/*"})
    monkeypatch.delenv("T", raising=False)
    with pytest.raises(UsageError, match="T is not set"):
        run(HttpHook(name="hook", url="https://h/", headers={"Authorization": "${env:T}"}), CONTEXT)
    monkeypatch.setenv("T", "x")
    with pytest.raises(UsageError, match="in the clear"):
        run(HttpHook(name="hook", url="http://example.org/", headers={"Authorization": "${env:T}"}), CONTEXT)
    for url in ("ftp://h/", "http://", "https://user:pw@h/", "http://h:99999/"):
        with pytest.raises(UsageError, match="has no address"):
            run(HttpHook(name="hook", url=url), CONTEXT)


# -- HTTP ------------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], object]] = []
        self.release = threading.Event()
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "http" if context is None else "https"

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.server_address[1]}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        if self.path == "/hangs":
            self.server.release.wait(30)
            return
        if self.path == "/hangs-up":
            return
        if self.path == "/drips":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not self.server.release.wait(0.05):
                self.wfile.write(b"x")
            return
        first = len(self.server.requests) == 1
        status = {"/busy": 503 if first else 200, "/moved": 302, "/full": 507}.get(self.path, 200)
        answer = f"you sent {self.headers.get('Authorization')}".encode()
        if self.path.startswith("/echo"):
            answer = f"no {self.path} of {self.path.partition('?')[0]}, {json.dumps(body)}".encode()
        self.send_response(status)
        self.send_header("Location", self.server.url("/elsewhere"))
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[tuple[Server, threading.Thread]] = []

    def start(context: ssl.SSLContext | None = None) -> Server:
        server = Server(context)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        made.append((server, thread))
        return server

    yield start
    for server, thread in made:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def post(url: str, **more: object) -> Evidence:
    return run(HttpHook(name="hook", url=url, **more), CONTEXT)  # type: ignore[arg-type]


def test_http_hook_posts_run_and_evidence_has_no_secret(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setenv("PAGER_TOKEN", "tok-123456")
    monkeypatch.setenv("PAGER_URL", server.url("/page?key=url-secret"))
    headers = {"Authorization": "Bearer ${env:PAGER_TOKEN}", "User-Agent": "drills"}
    found = post("${env:PAGER_URL}", headers=headers, body={"step": "page"})
    assert (found.outcome, found.code, found.target) == (Outcome.OK, 200, "${env:PAGER_URL}")
    path, sent, body = server.requests[0]
    assert (path, sent["Authorization"], sent["User-Agent"]) == ("/page?key=url-secret", "Bearer tok-123456", "drills")
    assert body == {"step": "page", "run_id": "run-7", "flow": "LEFT->RIGHT", "active": "RIGHT"}
    assert found.output == "you sent Bearer [hidden]"
    assert dict(found.sent) == {"Authorization": "[hidden] ${env:PAGER_TOKEN}", "User-Agent": "[hidden]"}
    for secret in ("tok-123456", "url-secret"):
        assert secret not in json.dumps(found.scalars())


@pytest.mark.parametrize(
    "path",
    [
        "/services/T000/B000/canary",
        "/webhookb2/canary@x/IncomingWebhook/canary",
        "/api/webhooks/1/canary",
        "/bot1:canary/sendMessage",
        "/v1/canary?key=canary&token=canary",
        "/#canary",
    ],
)
def test_http_hook_path_is_in_no_evidence(serve: Callable[..., Server], path: str) -> None:
    server = serve()
    found = post(server.url(path))
    assert (found.outcome, found.target) == (Outcome.OK, server.url(""))
    assert "canary" not in f"{found} {found.scalars()} {HttpHook(name='hook', url=server.url(path))}"
    gone = post(f"http://127.0.0.1:{free_ports(1)[0]}{path}")
    assert gone.outcome is Outcome.NOT_DONE
    assert "canary" not in f"{gone} {gone.scalars()}"


@pytest.mark.parametrize("written_out", [True, False])
def test_http_hook_address_and_body_that_the_answer_quotes_are_hidden(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, written_out: bool
) -> None:
    server = serve()
    url = server.url("/echo/c4n4ry-path?key=c4n4ry-query")
    monkeypatch.setenv("PAGER_URL", url)
    monkeypatch.setenv("PAGER_KEY", "c4n4ry-body")
    body = {"routing_key": "c4n4ry-body" if written_out else "${env:PAGER_KEY}", "n": 3}
    found = post(url if written_out else "${env:PAGER_URL}", body=body, body_refers=True)
    _, _, sent = server.requests[0]
    assert isinstance(sent, dict)
    assert (sent["routing_key"], sent["n"]) == ("c4n4ry-body", 3)
    assert found.ok
    assert "c4n4ry" not in f"{found} {found.scalars()}"


def test_http_hook_reference_in_the_text_of_an_alert_is_not_resolved(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setenv("KAFKA_PASSWORD", "c4n4ry")
    assert post(server.url("/"), body={"error": "${env:KAFKA_PASSWORD} has no value"}).ok
    assert "c4n4ry" not in str(server.requests)


def test_http_hook_unexpected_status_or_redirect_is_refused(serve: Callable[..., Server]) -> None:
    server = serve()
    assert (post(server.url("/full")).outcome, post(server.url("/full"), expected=(507,)).outcome) == ("refused", "ok")
    moved = post(server.url("/moved"))
    assert (moved.outcome, moved.reason) == (Outcome.REFUSED, "status 302, expected 200, 201, 202, 204")
    assert {path for path, _, _ in server.requests} == {"/full", "/moved"}


@pytest.mark.parametrize("path", ["/hangs", "/drips", "/hangs-up"])
def test_http_hook_incomplete_answer_is_unknown(serve: Callable[..., Server], path: str) -> None:
    server = serve()
    started = time.monotonic()
    found = post(server.url(path), timeout_s=0.7)
    assert time.monotonic() - started < 5
    assert found.outcome is Outcome.UNKNOWN
    assert len(server.requests) == 1


def test_http_hook_refused_connection_is_not_done() -> None:
    found = post(f"http://127.0.0.1:{free_ports(1)[0]}/")
    assert (found.outcome, found.code) == (Outcome.NOT_DONE, None)
    assert "refused" in found.reason


def test_http_hook_busy_server_is_retried_if_idempotent(serve: Callable[..., Server]) -> None:
    server = serve()
    found = post(server.url("/busy"), attempts=3, idempotent=True)
    assert (found.outcome, found.attempts, len(server.requests)) == (Outcome.OK, 2, 2)


def test_http_hook_untrusted_or_foreign_certificate_is_refused(serve: Callable[..., Server], tmp_path: Path) -> None:
    authority, trusted = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = serve(context)
    assert post(server.url("/", "localhost"), ca=trusted).ok
    stranger = post(server.url("/", "localhost"))
    assert (stranger.outcome, "certificate verify failed" in stranger.reason) == (Outcome.NOT_DONE, True)
    other_host = post(server.url("/"), ca=trusted)
    assert (other_host.outcome, "IP address mismatch" in other_host.reason) == (Outcome.NOT_DONE, True)
    assert len(server.requests) == 1
