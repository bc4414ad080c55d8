"""The mirror's workers as tasks of Spark: here, and on a cluster whose executors die or run a worker twice."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from canary_search import Canaries, Watch
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, create_topic, produce, read_all, traffic, wait_for
from fix_spark_cluster import SparkCluster
from own_processes import processes_of

from drlib.lab.ports import free_ports

PARTITIONS, LANES = 4, 2
pytestmark = pytest.mark.spark


class OnSpark:
    """`drlib mirror --spark` for an engine's file; what it prints is in `log`."""

    def __init__(self, engine: Engine, master: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.engine = engine
        self.out = engine.root / "worker-spark.log"
        argv = [sys.executable, "-m", "drlib.cli", "mirror", str(engine.properties), "--spark", master, *arguments]
        with self.out.open("wb") as log:
            self.process = subprocess.Popen(
                argv, env={**os.environ, **(environment or {})}, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def log(self) -> str:
        return self.out.read_text()

    def wait(self, what: str, condition: object, deadline_s: float = 90.0) -> None:
        assert callable(condition)

        def holds() -> bool:
            assert self.process.poll() is None, self.log
            return bool(condition())

        try:
            wait_for(what, holds, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.members()}\n{self.log}") from None

    def running(self) -> list[str]:
        """Names of the attempts that run now."""
        began = re.findall(r"runs as ([^\s\"]+)", self.log)
        return [name for name in began if f"{name} disconnected" not in self.log]

    def members(self) -> dict[str, set[int]]:
        """Members of the flow's group on the target, each with its lanes."""
        group = f"drlib-{self.engine.source}-{self.engine.target}"
        admin = AdminClient({"bootstrap.servers": self.engine.right, "log_level": 0})
        found = admin.describe_consumer_groups([group])[group].result(10)
        return {m.member_id: {tp.partition for tp in m.assignment.topic_partitions} for m in found.members}

    def shared(self, workers: int) -> bool:
        """Are there that many members, which have all lanes between them?"""
        try:
            shares = self.members()
        except Exception:  # the group is being made
            return False
        return len(shares) == workers and set().union(*shares.values()) == set(range(LANES))

    def copied(self, topic: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self.engine.right, "log_level": 0})
        remote = f"{self.engine.source}.{topic}"
        if remote not in admin.list_topics(timeout=10).topics:
            return False
        counts = [
            sum(map(len, read_all(bootstrap, name, PARTITIONS).values()))
            for bootstrap, name in ((self.engine.left, topic), (self.engine.right, remote))
        ]
        return counts[0] <= counts[1]

    def copied_at_least(self, topic: str, records: int) -> bool:
        admin = AdminClient({"bootstrap.servers": self.engine.right, "log_level": 0})
        remote = f"{self.engine.source}.{topic}"
        if remote not in admin.list_topics(timeout=10).topics:
            return False
        return sum(map(len, read_all(self.engine.right, remote, PARTITIONS).values())) >= records

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0, self.log
        assert self.members() == {}, self.log

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@contextmanager
def on_spark(
    engine: Engine, master: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[OnSpark]:
    found = OnSpark(engine, master, *arguments, environment=environment)
    try:
        yield found
    finally:
        found.close()
        wait_for("no worker outlives its driver", lambda: not children(found.log), 40)


def children(log: str) -> Sequence[str]:
    """Worker processes of the attempts that a log names."""
    names = re.findall(r"runs as ([^\s\"]+)", log)
    return [line for name in names for line in processes_of(Path(name))]


def status_owners(engine: Engine) -> tuple[int, set[str], set[str]]:
    """What `drlib status` exits with, the workers it hears, and who it says owns the lanes."""
    argv = [sys.executable, "-m", "drlib.cli", "status", str(engine.properties), "--json"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    (flow,) = json.loads(shown.stdout)
    return shown.returncode, set(flow["workers"]), {lane["owner"] for lane in flow["lanes"]}


def test_workers_on_spark_share_lanes_copy_a_backlog_and_stop_orderly(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 4000, partitions=PARTITIONS, batch=4000)
    with on_spark(engine, "local[2]", "--workers", "2", "--metrics", "0.0.0.0:0") as mirror:
        mirror.wait("two workers share the lanes", lambda: mirror.shared(2))
        mirror.wait("everything is copied", lambda: mirror.copied(topic))
        # the group gives a lane away before its new owner has claimed it, and claims are what status tells
        mirror.wait(
            "status hears both", lambda: status_owners(engine) == (0, set(mirror.running()), set(mirror.running()))
        )
        assert len(children(mirror.log)) == 2
        mirror.stop()
    engine.assert_same(topic, PARTITIONS)


@pytest.mark.long
def test_mirror_on_spark_permanent_error_ends_the_command(engine: Engine) -> None:
    engine.left = engine.right.replace("127.0.0.1", "localhost")
    with on_spark(engine, "local[1]") as mirror:
        assert mirror.process.wait(90) == 2, mirror.log
    (said,) = [line for line in mirror.log.splitlines() if "are the same cluster" in line]
    assert said.startswith("drlib: "), mirror.log
    assert "Traceback" not in mirror.log


@pytest.mark.long
def test_executor_killed_under_traffic_ends_its_worker_and_another_continues(
    engine: Engine, spark_cluster: SparkCluster
) -> None:
    topic = engine.topics
    secret = f"secret-{uuid.uuid4().hex}"
    engine.extra[f"{engine.source}.ssl.truststore.password"] = secret  # not used, and not to be seen
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 6000, partitions=PARTITIONS, batch=4000)
    with on_spark(engine, spark_cluster.master, "--workers", "2", environment=spark_cluster.environment) as mirror:
        mirror.wait("two workers share the lanes", lambda: mirror.shared(2))
        page = re.findall(r"Spark UI: ([^\s\"]+)", mirror.log)[0]
        shown = "".join(read_page(f"{page}/{path}/") for path in ("jobs", "stages", "environment", "executors"))
        for number in (1, 2):
            assert f"{engine.source}->{engine.target}: worker {number} of 2" in html.unescape(shown), shown
        with traffic(engine.left, topic, partitions=PARTITIONS, first=10_000, count=80):
            mirror.wait("traffic flows", lambda: mirror.copied_at_least(topic, 6200))
            before = mirror.running()
            os.kill(spark_cluster.executors()[0], signal.SIGKILL)
            mirror.wait("one worker is gone", lambda: len(set(before) & set(mirror.running())) == 1)
            (lost,) = set(before) - set(mirror.running())
            wait_for("its process is gone", lambda: not processes_of(Path(lost)), 25)
            mirror.wait("another runs for it", lambda: len(mirror.running()) == 2)
            mirror.wait("they share the lanes", lambda: mirror.shared(2))
        mirror.wait("everything is copied", lambda: mirror.copied(topic))
        mirror.stop()
    engine.assert_same(topic, PARTITIONS)
    logs = [path for path in spark_cluster.root.rglob("*") if path.is_file()]
    assert any(path.name == "stderr" for path in logs)
    assert secret not in shown + mirror.log
    assert not [path for path in logs if secret.encode() in path.read_bytes()]


@pytest.mark.long
def test_worker_on_a_cluster_that_authenticates_gets_its_token_by_a_secret_on_no_command_line(
    engine: Engine, tmp_path: Path
) -> None:
    canaries = Canaries.of("spark")
    port, page = free_ports(2)
    cluster = SparkCluster(tmp_path / "spark", port, page, secret=canaries["spark"])
    cluster.root.mkdir()
    create_topic(engine.left, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 400, partitions=PARTITIONS)
    given = (
        "spark.authenticate=true",
        "spark.network.crypto.enabled=true",
        "spark.authenticate.secret=${env:OWN_SECRET}",
    )
    settings = [word for pair in given for word in ("--spark-conf", pair)]
    environment = {**cluster.environment, "OWN_SECRET": canaries["spark"]}
    try:
        with Watch(canaries, lambda _: canaries.values) as watch:
            cluster.start()
            with on_spark(engine, cluster.master, *settings, environment=environment) as mirror:
                mirror.wait("everything is copied", lambda: mirror.copied(engine.topics))
                mirror.stop()
            assert canaries.found_in(mirror.log.encode()) == []
    finally:
        cluster.stop()
    assert watch.leaks == set()
    assert canaries.found_below(cluster.root) == []


@pytest.mark.long
def test_worker_run_twice_by_spark_duplicates_nothing_and_ends_with_the_driver(
    engine: Engine, spark_cluster: SparkCluster
) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 6000, partitions=PARTITIONS, batch=4000)
    speculating = ("spark.cores.max=2", "spark.speculation=true", "spark.speculation.task.duration.threshold=3s")
    settings = [word for pair in speculating for word in ("--spark-conf", pair)]
    with on_spark(engine, spark_cluster.master, *settings, environment=spark_cluster.environment) as mirror:
        with traffic(engine.left, topic, partitions=PARTITIONS, first=10_000, count=80):
            mirror.wait("two attempts run", lambda: len(mirror.running()) == 2)
            assert {name.split(".")[-2] for name in mirror.running()} == {"0", "1"}
            mirror.wait("they share the lanes", lambda: mirror.shared(2))
            mirror.wait("traffic flows", lambda: mirror.copied_at_least(topic, 6500))
            mirror.process.kill()
            mirror.process.wait(10)
            wait_for("no worker outlives the driver", lambda: not children(mirror.log), 25)
            wait_for("both left the group", lambda: mirror.members() == {}, 20)
        local = engine.start()  # lanes change hands between Spark and a machine of its own
        engine.wait_caught_up(topic, PARTITIONS)
        assert engine.stop(local) == 0, engine.log()
    engine.assert_same(topic, PARTITIONS)


def read_page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())
