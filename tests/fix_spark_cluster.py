"""A real Spark cluster on this machine: a standalone master and two workers, from PySpark's own jars, on 127.0.0.1.

A Spark program has one context a process, and the tests' own process has a local one; so `submit` runs a program of its own,
as a person would with another `--master`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest
from fix_engine import wait_for

from drlib.analysis.spark.session import _java_home
from drlib.lab.ports import free_ports

HOST = "127.0.0.1"
WORKERS = (HOST, "localhost")  # two hosts to Spark, which runs no task twice on one
TESTS = Path(__file__).parent


@dataclass
class SparkCluster:
    root: Path
    port: int
    page: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    secret: str = ""  # of spark.authenticate; "": connections are open
    local: Path | None = None  # where executors put what does not fit into memory

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {} if self.local is None else {"SPARK_LOCAL_DIRS": str(self.local)}
        return {
            **os.environ,
            **kept,
            "JAVA_HOME": str(_java_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }

    def start(self) -> None:
        self._daemon(
            "master", "master.Master", "--host", HOST, "--port", str(self.port), "--webui-port", str(self.page)
        )
        wait_for("the master answers", lambda: self._workers() is not None, 60)
        for number, host in enumerate(WORKERS):
            page, port = free_ports(2)
            self._daemon(
                f"worker-{number}",
                "worker.Worker",
                *("--host", host, "--port", str(port), "--webui-port", str(page)),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(self.root / f"work-{number}"), self.master),
            )
        wait_for("both workers joined", lambda: self._workers() == len(WORKERS), 60)

    def submit(self, program: str, *arguments: str, timeout_s: float = 150.0) -> dict[str, object]:
        """Run tests/`program` with the master and `arguments`; its last line of output, which is JSON."""
        argv = [sys.executable, str(TESTS / program), self.master, *arguments]
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}\n{self.log()}"
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def executors(self) -> list[int]:
        """Process IDs of the JVMs that the two workers have started; the script that started a worker is its child too."""
        found = []
        for process in self.processes:
            children = Path(f"/proc/{process.pid}/task").glob("*/children")
            found += [int(pid) for path in children for pid in path.read_text().split()]
        return [pid for pid in found if b"ExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def log(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.root.glob("*.log")))

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def _daemon(self, name: str, of: str, *arguments: str) -> None:
        argv = [f"{self.environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{of}", *arguments]
        environment = self.environment
        if self.secret:
            environment["SPARK_DAEMON_JAVA_OPTS"] += " -Dspark.authenticate=true -Dspark.network.crypto.enabled=true"
            environment["_SPARK_AUTH_SECRET"] = self.secret
        with (self.root / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(argv, env=environment, cwd=self.root, stdout=log, stderr=subprocess.STDOUT)
            )

    def _workers(self) -> int | None:
        """How many workers the master has; None when it does not answer yet."""
        assert all(process.poll() is None for process in self.processes), self.log()
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return None


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers of one core each; executors end with their application."""
    port, page = free_ports(2)
    cluster = SparkCluster(tmp_path_factory.mktemp("spark"), port, page)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
