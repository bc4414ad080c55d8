"""Secured clusters paris and lyon of three brokers each, a mirror, an operator, and plain clients that are configured by hand.

Mirror topics are prefixed, or have one name on both clusters, where both directions copy them and Kafka's console tools are
among the clients. HOME is where the applications begin; with roles exchanged that is lyon.

Every connection, the operator's too, is over the lab's link, so cutting it cuts off the whole site. Each role logs in with the
rights that `drlib doctor --rights` prints. The clients (confluent-kafka, kafka-python, Java) know one cluster each; they are
stopped and started again as the JSON document `applications` of a command says. Their histories are what counts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties
import yaml
from fix_engine import wait_for
from testbed_quotas import set_quotas

from drlib import publish_pointer
from drlib.config.replication_policy import Names
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.readiness.role import Role
from drlib.drill.session.unfinished_runs import read_state
from drlib.drill.testbed.lab_roles import grant_roles
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.brokers.acls import grant_application
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.brokers.security import MODES
from drlib.lab.checker.history import History, Mirrored, Produced
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.scan import scan
from drlib.lab.clients.runtimes import JAVA_SOURCE
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.status import worker_status
from drlib.model import Flow, TopicPartition
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

THERE = Flow("paris", "lyon")
PARTITIONS = 3
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# A small managed cluster: it ends sessions, forgets idle groups, lets few connections in, and slows down what asks for much.
STRICT = {
    "connections.max.reauth.ms": "5000",
    "max.connection.creation.rate": "20",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "10000",
    "auto.create.topics.enable": "false",
}
QUOTAS = {
    "request_percentage": 20.0,
    "producer_byte_rate": 1e5,
    "consumer_byte_rate": 2e5,
    "controller_mutation_rate": 2.0,
}
Document = dict[str, object]


@dataclass(frozen=True)
class App:
    """A producer of its topic, or a consumer whose name is its group."""

    name: str
    library: str
    role: str
    topic: str


APPS = (
    App("till", "confluent-kafka", "produce", "orders"),
    App("web", "kafka-python", "produce", "orders"),
    App("bank", "java", "produce", "payments"),
    App("billing", "java", "consume", "orders"),
    App("shipping", "kafka-python", "consume", "orders"),
    App("books", "confluent-kafka", "consume", "payments"),
)
# Of each producer of Kafka's console, what was acknowledged is not known, and its consumer commits every five seconds.
CONSOLE_APPS = (App("clerk", "console", "produce", "orders"), App("screen", "console", "consume", "orders"))
TOPICS = ("orders", "payments")


@dataclass
class Night:
    """`there`: from HOME to AWAY; `names`: of mirror topics."""

    lab: Lab
    root: Path
    there: Flow = THERE
    names: Names = Names.PREFIXED
    workers: int = 0
    at: dict[str, str] = field(default_factory=dict)  # where each application that runs is
    predicted: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # records that a group reads again at most, there

    @property
    def home(self) -> str:
        return self.there.source

    @property
    def away(self) -> str:
        return self.there.target

    @property
    def identical(self) -> bool:
        return self.names is Names.IDENTICAL

    @property
    def apps(self) -> tuple[App, ...]:
        return apps_of(self.names)

    @property
    def producers(self) -> tuple[App, ...]:
        return tuple(app for app in self.apps if app.role == "produce")

    @property
    def consumers(self) -> tuple[App, ...]:
        return tuple(app for app in self.apps if app.role == "consume")

    @property
    def groups(self) -> dict[str, str]:
        """The topic of each."""
        return {app.name: app.topic for app in self.consumers}

    def mirror_topic(self, topic: str) -> str:
        """Of HOME, on AWAY."""
        return topic if self.identical else f"{self.home}.{topic}"

    # Files and commands.

    def file(self, role: Role) -> Path:
        return self.root / f"{role}.properties"

    @property
    def operator(self) -> Path:
        return self.file(Role.DRILL)

    @property
    def runs_dir(self) -> Path:
        return self.root / "runs"

    @property
    def failing(self) -> LabCluster:
        """HOME."""
        return self.lab.clusters[self.home]

    def runbook(self, kind: str) -> Path:
        """What `drlib init` has written."""
        return self.root / "runbooks" / f"{kind}-{self.home}-{self.away}.yaml"

    def steps(self, kind: str) -> list[str]:
        """The names of its steps, in order."""
        return [str(step["name"]) for step in yaml.safe_load(self.runbook(kind).read_text())["drill"]["steps"]]

    def settings(self, alias: str) -> ClusterSettings:
        """As the lab's admin, not over the link."""
        return self.lab.clusters[alias].settings()

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "drlib.cli", *arguments]

    def cli(self, *arguments: str, code: int = 0, deadline_s: float = 300) -> str:
        """Both outputs of a command that has to end with `code`."""
        done = subprocess.run(
            self.argv(*arguments),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def is_ready(self, flow: str) -> bool:
        """Would the readiness gate be open now?"""
        argv = self.argv("doctor", str(self.operator), "--flow", flow)
        done = subprocess.run(
            argv, cwd=self.root, capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL
        )
        return done.returncode == 0

    def follow(
        self,
        *arguments: str,
        on: Callable[[Document], None] = lambda _: None,
        started: Callable[[subprocess.Popen[str]], None] = lambda _: None,
        deadline_s: float = 400,
    ) -> tuple[int, list[Document]]:
        """A command with `--json`, whose documents are given to `on` as they come: its exit code, and the documents.

        `started` gets its process, in a thread.
        """
        argv = self.argv(*arguments, "--json", "--runs-dir", str(self.runs_dir))
        with (self.root / "commands.log").open("a") as log:
            process = subprocess.Popen(
                argv, cwd=self.root, stdout=subprocess.PIPE, stderr=log, text=True, stdin=subprocess.DEVNULL
            )
        late = threading.Timer(deadline_s, process.kill)
        late.start()
        threading.Thread(target=started, args=(process,), daemon=True).start()
        documents: list[Document] = []
        try:
            for text in process.stdout or ():
                documents.append(json.loads(text))
                print(text[:600], flush=True)
                on(documents[-1])
            return process.wait(60), documents
        finally:
            late.cancel()
            process.kill()
            process.communicate()

    def killed_at_every_step(self, *arguments: str, on: Callable[[Document], None]) -> tuple[int, list[str]]:
        """The command, killed with its kernel once at the start of each step of its runs, and given again until it ends.

        Its last exit code, and the steps at which it was killed.
        """
        killed: list[str] = []
        before = {run.name for run in self.runs_dir.glob("*")}
        for _ in range(40):
            ended = threading.Event()
            known = len(killed)

            def watch(process: subprocess.Popen[str], ended: threading.Event = ended) -> None:
                while not ended.wait(0.02):
                    step = self.started_step()
                    if step is not None and step not in killed and step.partition(" ")[0] not in before:
                        killed.append(step)
                        process.kill()
                        return

            code, _documents = self.follow(*arguments, on=on, started=watch)
            ended.set()
            if len(killed) == known:
                return code, killed
        raise AssertionError(f"it never ends: {killed}")

    def abandon(self, *arguments: str) -> str:
        """The run of a command that is killed in its first step."""
        process = subprocess.Popen(
            [*self.argv(*arguments), "--runs-dir", str(self.runs_dir)],
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        before = {*self.runs_dir.glob("*")}
        try:
            wait_for(
                "a step begins",
                lambda: {*self.runs_dir.glob("*")} != before and self.started_step() is not None,
            )
        finally:
            process.kill()
            process.wait(30)
        (run,) = {*self.runs_dir.glob("*")} - before
        return run.name

    def lose_disks(self, alias: str) -> None:
        """The cluster comes back without its data, and its users get their logins and rights again."""
        cluster = self.lab.clusters[alias]
        cluster.kill()
        for broker in cluster.brokers:
            shutil.rmtree(Path(broker.spec.directory) / "data")
            broker.prepare(self.lab._configuration())
        cluster.start()
        vault = self.lab._vault()
        assert vault is not None
        vault.make_users(cluster.internal_bootstrap)
        grant_all(self.lab, self.root)

    def rename_paris(self, alias: str) -> None:
        """As the refusal says: a new name in every file, to which all topics of lyon are mirrored."""
        flow = Flow("lyon", alias)
        for role in Role:
            text = self.file(role).read_text()
            lines = [line for line in text.splitlines() if "->" not in line and not line.startswith("clusters")]
            lines = [line.replace("paris.", f"{alias}.", 1) if line.startswith("paris.") else line for line in lines]
            topics = ",".join([*TOPICS, *(f"paris.{topic}" for topic in TOPICS)])
            lines += [f"clusters=lyon, {alias}", f"{flow}.enabled=true", f"{flow}.topics={topics}"]
            self.file(role).write_text("\n".join(lines) + "\n")
        grant_roles({role: self.file(role) for role in Role}, flow, {**self.lab.clusters, alias: self.failing})

    def ended(self, runbook: str, step: str) -> bool:
        """Whether the newest run of the runbook has done the step."""
        runs = sorted(self.runs_dir.glob(f"*-{runbook}-*"))
        lines = journal.read(runs[-1] / JOURNAL) if runs and (runs[-1] / JOURNAL).exists() else ()
        return any((line.event, line.data.get("step")) == ("step-succeeded", step) for line in lines)

    def started_step(self) -> str | None:
        """`RUN STEP` of the newest run, if that step has begun and not ended."""
        runs = sorted(self.runs_dir.glob("*"))
        if not runs or not (runs[-1] / JOURNAL).exists():
            return None
        lines = [line for line in journal.read(runs[-1] / JOURNAL) if "step" in line.data]
        if not lines or lines[-1].event != "step-started":
            return None
        return f"{runs[-1].name} {lines[-1].data['step']}"

    # The mirror.

    def start_worker(self) -> None:
        self.workers += 1
        arguments = ("mirror", str(self.file(Role.MIRROR)), "--status", str(self.status_path))
        self.lab.start_module(f"mirror-{self.workers}", "drlib.cli", *arguments)

    @property
    def status_path(self) -> Path:
        """Of the newest worker."""
        return self.root / f"status-{self.workers}.json"

    def copies_both_ways(self) -> bool:
        """Has the worker claimed all partitions in both directions? What is written to a shared topic before is unexplained."""
        flows = worker_status.read(self.status_path).flows if self.status_path.exists() else ()
        wanted = {(topic, number) for topic in TOPICS for number in range(PARTITIONS)}
        return len(flows) == 2 and all(wanted <= {(p.topic, p.partition) for p in flow.partitions} for flow in flows)

    def kill_worker(self) -> None:
        self.lab.registry.kill(f"mirror-{self.workers}")
        wait_for("the worker is out of its group", lambda: not self.members(self.there), 90)

    def members(self, flow: Flow) -> int:
        with Cluster(self.settings(flow.target)) as cluster:
            return len(cluster.group_members(worker_group(flow)))

    def ends(self, alias: str, topic: str) -> int:
        """The sum of the ends of the topic's partitions, with markers; 0 for a topic that is not there."""
        with Cluster(self.settings(alias)) as cluster:
            if topic not in cluster.topics([topic]):
                return 0
            return sum(cluster.log_ends([TopicPartition(topic, p) for p in range(PARTITIONS)]).values())

    def state(self) -> LeaseRecord:
        return read_state(self.settings(self.away), self.there)

    # Applications.

    def history_file(self, app: App) -> Path:
        return self.root / "histories" / f"{app.name}.jsonl"

    def history(self) -> History:
        return read_history(*(self.history_file(app) for app in self.apps))

    def start(self, app: App, alias: str, topics: Sequence[str]) -> None:
        past = read_history(self.history_file(app)) if self.history_file(app).exists() else History()
        first = max((int(row.id.rpartition("-")[2]) + 1 for row in past.produced), default=0)
        cluster = self.lab.clusters[alias]
        config = self.lab.client_file()
        names = ",".join(topics)
        classpath = os.pathsep.join([str(self.root / "classes"), *map(str, jars.classpath("kafka"))])
        java = [str(jars.java().path), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath]
        if app.library == "console":
            argv = [sys.executable, "-m", "drlib.lab.clients.console_client", app.role, app.name, alias]
            argv += [cluster.link_bootstrap, names, str(self.history_file(app)), "15", str(first), str(config), *java]
        elif app.library == "java":
            argv = [*java, "PlainClient"]
            argv += [app.role, app.name, alias, cluster.link_bootstrap, str(config), names, str(self.history_file(app))]
            argv += [str(first), "15", "max.block.ms=1000", "default.api.timeout.ms=3000"]
        else:
            argv = [sys.executable, "-m", "drlib.lab.clients.python_client", app.library, app.role, "--name", app.name]
            argv += ["--alias", alias, "--bootstrap", cluster.link_bootstrap, "--config", str(config)]
            argv += ["--topics", names, "--history", str(self.history_file(app)), f"--first={first}"]
            # As a service manager would: kafka-python's consumer can begin without ever asking for its group again.
            argv += ["--restart-after=30"]
        self.lab.registry.start(app.name, argv, log=self.root / "histories" / f"{app.name}.log")
        self.at[app.name] = alias

    def stop(self, *apps: App) -> None:
        for app in apps:
            self.lab.registry.signal(app.name, signal.SIGTERM)  # all at once
        for app in apps:
            self.lab.registry.stop(app.name, deadline_s=30)
            self.at.pop(app.name, None)

    def stop_all(self) -> None:
        self.stop(*(app for app in self.apps if app.name in self.at))

    def reconfigure(self, document: Mapping[str, object]) -> None:
        """What a person does who reads what `applications` says; nothing where it was done."""
        alias = str(document["target"])
        if {*self.at.values()} == {alias} and len(self.at) == len(self.apps):
            return
        said = {str(row["group"]): [*_texts(row["subscribe"])] for row in rows(document, "groups")}
        produced = {str(row["topic"]) for row in rows(document, "producers")}
        for row in rows(document, "groups"):
            self.predicted[alias, str(row["group"])] = int(str(row["re_reads"]))
        self.stop_all()
        for app in self.apps:
            if app.role == "consume":
                self.start(app, alias, said[app.name])
            else:
                assert app.topic in produced, document
                self.start(app, alias, [app.topic])

    def let_run(self, records: int, deadline_s: float = 300) -> None:
        """Until that many more records are acknowledged, all producers have some, and all groups have read."""
        before = self.history()
        was = {app.name: _rows_of(before, app) for app in self.apps}

        def done() -> bool:
            time.sleep(2)  # histories grow long
            now = self.history()
            return all(_rows_of(now, app) >= was[app.name] + records // 3 for app in self.apps)

        wait_for(f"{records} records more", done, deadline_s)

    def all_read(self, deadline_s: float = 120, lost: Collection[str] = ()) -> None:
        """Until every group has read every acknowledged record of its topic that is on the cluster it reads from, but for
        those that were `lost`, and those that were quarantined: what they are worth is decided by people.

        Under one name, until both clusters have the same records and every group has read them.
        """
        aside = {row.id for topic in TOPICS for row in self.log(self.away, f"drlib.tail.{self.home}.{topic}")}.union(
            lost
        )

        def written_to(alias: str, topic: str) -> Callable[[Produced], bool]:
            sides = self.sides if self.identical else (alias,)
            return lambda row: (row.status, row.topic) == ("acked", topic) and row.cluster in sides

        def done() -> bool:
            time.sleep(1)
            now = self.history()
            read = {group: aside.union(r.id for r in now.consumed if r.group == group) for group in self.groups}
            for group, topic in self.groups.items():
                if any(row.id not in read[group] for row in filter(written_to(self.at[group], topic), now.produced)):
                    return False
            if not self.identical:
                return True
            home, away = ({topic: {r.id for r in self.log(alias, topic)} for topic in TOPICS} for alias in self.sides)
            return home == away and all(home[topic] <= read[group] for group, topic in self.groups.items())

        wait_for("all groups have read all", done, deadline_s)

    @property
    def sides(self) -> tuple[str, str]:
        return self.home, self.away

    def log(self, alias: str, *topics: str) -> tuple[Mirrored, ...]:
        with Cluster(self.settings(alias)) as cluster:
            there = [topic for topic in topics if topic in cluster.topics([topic])]
        return tuple(row for topic in there for row in scan(self.settings(alias), topic))


def named_on(night: Night, alias: str) -> Document:
    """The document `applications` for a move to `alias`, where mirror topics are prefixed."""
    (other,) = {*night.sides} - {alias}
    groups = [
        {"group": group, "subscribe": [f"{other}.{topic}", topic], "re_reads": 0}
        for group, topic in night.groups.items()
    ]
    return {"target": alias, "groups": groups, "producers": [{"topic": topic} for topic in TOPICS]}


def rows(document: Mapping[str, object], name: str) -> list[dict[str, object]]:
    found = document[name]
    assert isinstance(found, list)
    return found


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(each) for each in value]


def _rows_of(history: History, app: App) -> int:
    if app.role == "consume":
        return sum(row.group == app.name for row in history.consumed)
    known = ("in-doubt",) if app.library == "console" else ("acked",)
    return sum(row.status in known and row.id.startswith(f"{app.name}-") for row in history.produced)


def apps_of(names: Names) -> tuple[App, ...]:
    return (*APPS, *CONSOLE_APPS) if names is Names.IDENTICAL else APPS


def write_files(lab: Lab, root: Path, names: Names = Names.PREFIXED) -> None:
    """One file for each role, all over the link."""
    groups = [app.name for app in apps_of(names) if app.role == "consume"]
    for role in Role:
        keys = {
            "clusters": "paris, lyon",
            **{f"{alias}.bootstrap.servers": cluster.link_bootstrap for alias, cluster in lab.clusters.items()},
            f"{THERE}.enabled": "true",
            f"{THERE}.topics": ",".join(TOPICS),
            f"{THERE.reverse}.enabled": "true",
            f"{THERE.reverse}.topics": ",".join(TOPICS),
            "groups": ",".join(groups),
            **({"replication.policy.class": IDENTITY} if names is Names.IDENTICAL else {}),
            "drlib.metrics.address": "127.0.0.1:0",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.topics.interval.seconds": "2",
            "refresh.groups.interval.seconds": "2",
            **lab.mirror_keys(lab.aliases, "LINK", role),
        }
        (root / f"{role}.properties").write_text(javaproperties.dumps(keys, timestamp=None))


def grant_all(lab: Lab, root: Path) -> None:
    grant_roles({role: root / f"{role}.properties" for role in Role}, THERE, lab.clusters)
    for cluster in lab.clusters.values():
        grant_application(cluster)


@contextmanager
def a_secured_night(
    root: Path, *, there: Flow = THERE, names: Names = Names.PREFIXED, strict: bool = False
) -> Iterator[Night]:
    """Applications write to and read from HOME, which is mirrored to AWAY by `there`; the pointer names HOME.

    `strict`: both clusters have the settings `STRICT` and the quotas `QUOTAS`.
    """
    classes = root / "classes"
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    subprocess.run(["javac", "-d", str(classes), "-cp", classpath, str(JAVA_SOURCE)], check=True)
    (root / "histories").mkdir()
    with Lab(
        root / "lab", ("paris", "lyon"), brokers=3, security=MODES["scram"], extra=STRICT if strict else {}
    ) as lab:
        write_files(lab, root, names)
        grant_all(lab, root)
        for alias in lab.aliases if strict else ():
            blocking(set_quotas(lab.clusters[alias].settings(), QUOTAS, of="user"))
        night = Night(lab, root, there, names)
        specs = [TopicSpec(topic, PARTITIONS, {"min.insync.replicas": "2"}) for topic in TOPICS]
        for alias in night.sides if night.identical else (night.home,):
            create_topics(night.settings(alias), specs)
        night.start_worker()
        if night.identical:
            wait_for("both directions copy the topics", night.copies_both_ways, 90)
        for app in night.apps:
            night.start(app, night.home, [app.topic])
        night.let_run(300)

        def mirrored() -> bool:
            if not all(night.ends(night.away, night.mirror_topic(topic)) for topic in TOPICS):
                return False
            known = checkpointed_positions(load_mirror_settings(night.operator), there)
            return len(known) >= len(night.groups)

        wait_for("the mirror and its checkpoints are there", mirrored, 90)
        publish_pointer(night.operator, night.home)
        try:
            yield night
        finally:
            night.stop_all()
