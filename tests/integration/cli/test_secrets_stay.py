"""Secrets stay in the processes that need them: a mirror, drills and a Spark audit on secured clusters, each failed once, too.

Every secret is a canary: passwords of users and of a store, a client's secret, the path of a webhook, a header, a variable.
They are searched in all that was written, on all command lines, and in the environments of processes that need none of them.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from canary_search import Canaries, Watch
from fix_engine import Engine, create_topic, produce, wait_for
from fix_spark_cluster import SparkCluster
from repository_root import ROOT
from tiny_notebook import write_notebook

from drlib.lab.brokers.security import BROKER, USER, LabSecurity
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports

OPEN = "PLAIN_TEXT"  # where the test itself writes and reads
CANARIES = Canaries.of(USER, BROKER, "wrong", "store", "client", "webhook", "header", "body", "variable", "written")
ECHO = "import os, sys; print(sorted(os.environ.items())); sys.exit(int(sys.argv[1]))"
CELL = "import drlib\ndrill = drlib.open_drill(runbook, run_dir, pager=pager)\ndrill.plan()"
PARAMETERS = 'run_dir: str = ""\nrunbook: str = ""\npager: str = ""\nlabels: list[str] = []\n'


def may_have(line: bytes) -> tuple[str, ...]:
    """Canaries that a process may have in its environment: all in drlib's own Python, and in the JVM that reads for it."""
    starting = (
        b"spark-submit",
        b"spark-class",
        b"spark-env",
        b"spark-home",
        b"org.apache.spark.launcher",
        b"SparkSubmit",
        b"blockmgr-",  # Spark's driver removes its own folder by a program, which gets what the driver has
    )
    if any(name in line for name in (b"drlib.cli", b"ipykernel", b"dirname", *starting)):
        return tuple(CANARIES.values)
    return ("variable",) if ECHO.encode() in line else ()


class Endpoint(http.server.ThreadingHTTPServer):
    """A token endpoint at /token; a receiver of hooks that quotes what it got, anywhere else."""

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
        if self.path == "/token":
            self._answer(*self._token())
        else:
            self.server.posts.append((self.path, dict(self.headers), body))
            self._answer(200, f"{self.path} {dict(self.headers)} {body}")

    def _token(self) -> tuple[int, str]:
        who = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if who != f"drlib:{CANARIES['client']}":
            return 401, json.dumps({"error": f"not {who}"})
        claims = {"sub": USER, "scope": "kafka", "iat": time.time(), "exp": time.time() + 600}
        parts = [
            base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in ({"alg": "none"}, claims)
        ]
        return 200, json.dumps({"access_token": ".".join(parts) + ".", "expires_in": 600})

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


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Lab]:
    """Two clusters whose users have canaries as passwords."""
    root = tmp_path / "lab"
    root.mkdir()
    (root / ".drlib-lab").touch()  # as a lab marks its folder
    passwords = root / "passwords.properties"
    passwords.touch(0o600)
    passwords.write_text(f"{USER}={CANARIES[USER]}\n{BROKER}={CANARIES[BROKER]}\n")
    with Lab(root, security=LabSecurity(more={OPEN: "PLAINTEXT"})) as lab:
        yield lab


@pytest.fixture
def own_spark(tmp_path: Path) -> Iterator[SparkCluster]:
    root = tmp_path / "spark"
    (root / "local").mkdir(parents=True)
    port, page = free_ports(2)
    cluster = SparkCluster(root, port, page, local=root / "local")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@dataclass
class Place:
    """The folders of the test: `given` holds what the operator has written, with secrets; the rest is drlib's."""

    root: Path
    endpoint: Endpoint
    lab: Lab | None = None
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    def __post_init__(self) -> None:
        for folder in (self.given, self.logs, self.runs):
            folder.mkdir()
        self.topic = f"orders-{self.tag}"
        self.source, self.target = f"SRC{self.tag}", f"DST{self.tag}"
        (self.given / "kept.properties").write_text(f"user={CANARIES[USER]}\nwrong={CANARIES['wrong']}\n")
        self.store = self._store() if self.lab else Path()

    @property
    def given(self) -> Path:
        return self.root / "given"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def kept(self, key: str) -> str:
        return f"${{file:{self.given}/kept.properties:{key}}}"

    def _store(self) -> Path:
        """A PKCS12 trust store with a canary as its password."""
        keytool, path = shutil.which("keytool"), self.given / "trust.p12"
        assert keytool
        assert self.lab
        authority = self.lab.clusters["LEFT"].settings().security["ssl.truststore.location"]
        argv = [keytool, "-importcert", "-keystore", str(path), "-storetype", "PKCS12", "-noprompt", "-alias", "ca"]
        argv += ["-file", authority, "-storepass:env", "STORE"]
        subprocess.run(
            argv, env={"PATH": os.environ["PATH"], "STORE": CANARIES["store"]}, capture_output=True, check=True
        )
        return path

    def engine(self, login: str, *, tokens: bool) -> Engine:
        """The mirror's file: SCRAM with the password `login` on the source, and a token or the same login on the target."""
        assert self.lab
        left, right = (self.lab.clusters[alias] for alias in ("LEFT", "RIGHT"))
        name = f"mirror-{uuid.uuid4().hex[:4]}"
        (self.logs / name).mkdir()
        made = Engine(self.logs / name, left.at(OPEN), right.at(OPEN), self.source, self.target, self.topic)
        jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{login}";'
        for alias, cluster in ((self.source, left), (self.target, right)):
            keys = {**cluster.settings().security, "sasl.jaas.config": jaas}
            made.extra[f"{alias}.bootstrap.servers"] = ",".join(cluster.settings().bootstrap_servers)
            made.extra |= {f"{alias}.{key}": text for key, text in keys.items()}
        if tokens:
            made.extra |= {
                f"{self.source}.ssl.truststore.type": "PKCS12",
                f"{self.source}.ssl.truststore.location": str(self.store),
                f"{self.source}.ssl.truststore.password": "${env:CANARY_STORE}",
                f"{self.target}.sasl.mechanism": "OAUTHBEARER",
                f"{self.target}.sasl.oauthbearer.token.endpoint.url": self.endpoint.url("token"),
                f"{self.target}.sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                    'clientId="drlib" clientSecret="${env:CANARY_CLIENT}" scope="kafka";'
                ),
            }
        return made

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
                "lease": False,  # the state of the flow allows one failover, and these are two
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
            "CANARY_STORE": CANARIES["store"],
            "CANARY_CLIENT": CANARIES["client"],
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


@pytest.mark.long
@pytest.mark.spark
def test_mirror_drills_and_audits_leave_no_secret_behind(
    tmp_path: Path, secured: Lab, endpoint: Endpoint, own_spark: SparkCluster
) -> None:
    place = Place(tmp_path, endpoint, secured)
    with Watch(CANARIES, may_have, (own_spark.root / "local",)) as watch:
        mirrored(place)
        drilled(place, place.engine(place.kept("user"), tokens=True).properties)
        audited(place, own_spark)
    for program in ("drlib.cli mirror", "ipykernel", "SparkSubmit", "CoarseGrainedExecutorBackend"):
        assert [line for line in watch.lines if program in line], program
    assert watch.leaks == set()
    own_spark.stop()
    secured.down(keep=True)
    assert {path.name for path in place.runs.rglob("*")} >= REPORTED
    assert CANARIES.found_below(tmp_path, allowed=[place.given, secured.root / "passwords.properties"]) == []


def mirrored(place: Place) -> None:
    """A mirror that copies, and one whose client is refused."""
    assert place.lab
    left = place.lab.clusters["LEFT"].at(OPEN)
    create_topic(left, place.topic, 2)
    produce(left, place.topic, 300, partitions=2)
    engine = place.engine(place.kept("user"), tokens=True)
    try:
        engine.start(environment=place.environment())
        engine.wait_caught_up(place.topic, 2)
        assert engine.stop(engine.processes[0]) == 0
        failing = engine.start(environment=place.environment(CANARY_CLIENT=CANARIES["wrong"]))
        wait_for("the token is refused", lambda: "token" in engine.log().rpartition("worker-1")[2].lower(), 60)
        failing.terminate()
        failing.wait(30)
    finally:
        engine.close()


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


def audited(place: Place, spark: SparkCluster) -> None:
    """An audit by executors that resolve the references, and one whose file holds the password itself."""
    book = ROOT / "runbooks" / "nightly-audit.yaml"
    where = (
        "-p",
        f"flow={place.source}->{place.target}",
        "-p",
        f"topics={place.topic}",
        "-p",
        f"master={spark.master}",
    )
    good = place.engine(place.kept("user"), tokens=False)
    said = place.run("audit", book, good.properties, *where, code=0, **spark.environment)
    assert "pass" in said.lower()
    bad = place.engine(CANARIES[USER], tokens=False)
    written = place.given / "written.properties"
    bad.properties.replace(written)
    said = place.run("refused-audit", book, written, *where, code=2, **spark.environment)
    assert "is not sent to Spark's executors" in " ".join(said.split())
