"""Real producers that one address leads from paris to lyon, where the other producer of their partition has their producer ID.

One pair of clusters for all: each case is a client, a topic of its own, and what the other producer is. The two get the same
ID, as each cluster's next one, paris is killed, and the address leads the redirected producers to lyon.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from fix_engine import alter, create_topic, read_all, wait_for
from repository_root import ROOT
from testbed_bootstrap import JVM, Process, Site
from testbed_producer_ids import next_id, same_next_id
from testbed_streams import sums_command

from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.clients import runtimes
from drlib.mirror.source_producers.leaders import Known, ask_leaders
from drlib.model import TopicPartition

FOLDER: Final = ROOT / "tests" / "redirected"
CLIENTS: Final = ("java", "java-3.9", "librdkafka", "kafkajs", "franz-go")
SEND_S: Final = 60.0
BEFORE, OTHERS, AFTER = range(10), range(13), range(10, 20)

Result = int | str
"""An offset, or an error's name."""


class Family(Protocol):
    """Producers of one library."""

    def open(self, case: str, servers: str, topic: str, transactional_id: str = "") -> None: ...

    def send(self, case: str, value: str) -> Result: ...


class Program:
    """Those of a program that reads commands."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()

    def open(self, case: str, servers: str, topic: str, transactional_id: str = "") -> None:
        self._tell(f"open {case} {servers} {topic} {transactional_id}".strip())
        assert self._answer(case, "open") == 0, f"{case} could not begin"

    def send(self, case: str, value: str) -> Result:
        self._tell(f"send {case} {value}")
        return self._answer(case, value)

    def _tell(self, line: str) -> None:
        assert self._process.child.stdin is not None
        with self._lock:
            self._process.child.stdin.write(f"{line}\n".encode())
            self._process.child.stdin.flush()

    def _answer(self, case: str, value: str) -> Result:
        wanted, found = f"{case} {value} ", list[str]()

        def answered() -> bool:
            found[:] = [line.removeprefix(wanted) for _, line in list(self._process.lines) if line.startswith(wanted)]
            return bool(found)

        try:
            wait_for(f"{case} {value}", answered, SEND_S)
        except AssertionError:
            return "no answer"
        return int(found[0]) if found[0].isdigit() else found[0]


class Librdkafka:
    """confluent-kafka, in this process."""

    def __init__(self) -> None:
        self._producers: dict[str, tuple[Producer, str, bool]] = {}

    def open(self, case: str, servers: str, topic: str, transactional_id: str = "") -> None:
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0, "linger.ms": 0}
        named = {"transactional.id": transactional_id} if transactional_id else {}
        producer = Producer({**settings, **named})
        if transactional_id:
            producer.init_transactions(30)
        self._producers[case] = producer, topic, bool(transactional_id)

    def send(self, case: str, value: str) -> Result:
        producer, topic, transactional = self._producers[case]
        answers: list[Result] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            answers.append((message.offset() or 0) if error is None else str(error.name()))

        try:
            if transactional:
                producer.begin_transaction()
            producer.produce(topic, value, partition=0, on_delivery=delivered)
            producer.flush(SEND_S)
            if transactional and answers and isinstance(answers[0], int):
                producer.commit_transaction(30)
            elif transactional:
                producer.abort_transaction(30)
        except KafkaException as error:
            return str(error.args[0].name())
        return answers[0] if answers else "no answer"


@contextmanager
def families(site: Site, names: Sequence[str]) -> Iterator[Mapping[str, Family]]:
    """The programs of `names`. They end with the site."""
    found: dict[str, Family] = {}
    for name in names:
        if name == "librdkafka":
            found[name] = Librdkafka()
            continue
        process = site.processes[name] = Process(_command(name, site.root), site.root / f"{name}.log", fed=True)
        found[name] = Program(process)
    yield found


def _command(name: str, root: Path) -> list[str]:
    if name == "kafkajs":
        work = root / "kafkajs"
        work.mkdir()
        (work / "node_modules").symlink_to(_fetched(name) / "node_modules")
        shutil.copy(FOLDER / "redirected.js", work)
        return [shutil.which("node") or "node", str(work / "redirected.js")]
    if name == "franz-go":
        work = root / "franz-go"
        work.mkdir()
        for path in (FOLDER / "main.go", *(runtimes.PROGRAMS / name).glob("go.*")):
            shutil.copy(path, work)
        subprocess.run(["go", "build", "-o", "client", "."], cwd=work, check=True, timeout=300)
        return [str(work / "client")]
    kafka = jars.classpath("kafka")
    if name == "java":
        paths, more = list(kafka), list[str]()
    else:  # with the kafka-clients that Spark's connector brings, which bootstrap again where they are set to
        clients = [jar for jar in jars.classpath("spark") if jar.name.startswith("kafka-clients-3.9")]
        assert clients
        paths = [*clients, *(jar for jar in kafka if not jar.name.startswith("kafka-clients-"))]
        more = ["metadata.recovery.strategy=rebootstrap"]
    java = [str(jars.java().path), *JVM, "-cp", os.pathsep.join(map(str, paths))]
    return [*java, str(FOLDER / "RedirectedProducers.java"), *more]


def _fetched(name: str) -> Path:
    runtimes.fetch()
    made = sorted(runtimes.store().glob(f"{name}-*"))
    assert made, f"{name} is not fetched: python -m drlib.lab.clients.runtimes"
    return made[-1]


@dataclass(frozen=True)
class Case:
    """One redirected producer X of `client`, and the other one, Y, at lyon.

    `x` and `y`: "" for an idempotent producer, else the transactional ID's first letter; `y` None for none. `x_begins` and
    `y_begins`: how often each begins with its transactional ID, which makes its epoch. `x_fails`: paris refuses a record of X,
    so that its library begins another epoch, or asks for another ID. `lane`: Y is the lane that copies X's topic, to the topic
    of this name.
    """

    name: str
    client: str
    x: str = ""
    y: str | None = ""
    x_begins: int = 1
    y_begins: int = 1
    x_fails: bool = False
    lane: str = ""

    @property
    def topic(self) -> str:
        return f"{self.client}-{self.name}".replace(".", "")

    @property
    def other(self) -> str:
        """The library of Y: that of X, unless only one of them has transactions."""
        return self.client if bool(self.x) == bool(self.y) else "librdkafka"

    def transactional_id(self, letter: str) -> str:
        return f"{letter}-{self.topic}" if letter else ""


@dataclass
class Outcome:
    """What a case did. IDs are (producer ID, epoch) of X at paris and of Y at lyon right before paris was lost."""

    x_id: tuple[int, int] = (-1, -1)
    y_id: tuple[int, int] | None = None
    after: dict[str, Result] = field(default_factory=dict)  # x10 to x19
    other: Result = ""  # Y's next record
    log: list[str] = field(default_factory=list)  # of lyon, in order

    @property
    def acknowledged(self) -> list[str]:
        return [value for value, result in self.after.items() if isinstance(result, int)]

    @property
    def errors(self) -> list[str]:
        return sorted({result for result in self.after.values() if isinstance(result, str)})

    @property
    def lost(self) -> list[str]:
        """Acknowledged by lyon and not in its log."""
        return [value for value in self.acknowledged if value not in self.log]

    @property
    def other_lost(self) -> bool:
        return isinstance(self.other, int) and "y13" not in self.log

    def __str__(self) -> str:
        return (
            f"X {self.x_id}, Y {self.y_id}: acknowledged {len(self.acknowledged)}, lost {self.lost}, errors {self.errors}, "
            f"Y then {self.other}{' LOST' if self.other_lost else ''}"
        )


class Stage:
    """Cases on one pair of clusters."""

    def __init__(self, site: Site, families: Mapping[str, Family], cases: Sequence[Case]) -> None:
        self.site = site
        self.families = families
        self.cases = cases
        self.outcomes = {case.topic: Outcome() for case in cases}
        self.paris, self.lyon = (site.lab.clusters[alias].bootstrap for alias in ("paris", "lyon"))

    def begin(self) -> None:
        """Both producers of each case get their ID, and write."""
        for case in self.cases:
            if not case.lane:
                for servers in (self.paris, self.lyon):
                    create_topic(servers, case.topic, 1)
                self._begin(case)

    def _begin(self, case: Case) -> None:
        found = self.outcomes[case.topic]
        first = same_next_id(self.site.settings()) if case.y is not None else 0
        self._write_x(case)
        if case.y is not None:
            name, other = f"{case.topic}-y", self.families[case.other]
            if case.other != case.client:  # libraries use a different number of IDs up
                for _ in range(found.x_id[0] - first):
                    next_id(self.site.settings("lyon")[0])
            for at in range(case.y_begins):
                other.open(name + f"{at}", self.lyon, case.topic, case.transactional_id(case.y))
            for number in OTHERS:
                sent = other.send(f"{name}{case.y_begins - 1}", f"y{number}")
                assert isinstance(sent, int), (case, number, sent)
            found.y_id = self.known(self.lyon, case.topic)
            assert found.y_id is not None
            assert found.y_id[0] == found.x_id[0] or case.x_fails, (case, found)

    def _write_x(self, case: Case) -> None:
        family, found = self.families[case.client], self.outcomes[case.topic]
        for at in range(case.x_begins):
            family.open(f"{case.topic}-x{at}", self.site.address, case.topic, case.transactional_id(case.x))
        name = f"{case.topic}-x{case.x_begins - 1}"
        if case.x_fails:
            assert family.send(name, "first") == 0
            alter(self.paris, case.topic, "max.message.bytes", "500")
            wait_for("the leader refuses large records", lambda: not takes_large(self.paris, case.topic), 20)
            refused = family.send(name, os.urandom(1000).hex())
            assert isinstance(refused, str), "it was not refused"
        for number in BEFORE:
            sent = family.send(name, f"x{number}")
            assert isinstance(sent, int) or case.x_fails, (case, number, sent)
        known = self.known(self.paris, case.topic)
        assert known is not None
        found.x_id = known

    def begin_at_lanes(self) -> None:
        """X of each lane's case gets the ID of its lane: paris's IDs are used up until it is the next one."""
        (paris,) = self.site.settings("paris")
        last = next_id(paris)
        lanes = {case: self.known(self.lyon, case.lane) for case in self.cases if case.lane}
        for case, lane in sorted(lanes.items(), key=lambda each: each[1] or (0, 0)):
            assert lane is not None
            while last < lane[0] - 1:
                last = next_id(paris)
            self._write_x(case)
            last = self.outcomes[case.topic].x_id[0]
            assert last == lane[0]
            wait_for("its records are copied", lambda case=case: self._copied(case), 60)
            self.outcomes[case.topic].y_id = self.known(self.lyon, case.lane)

    def _copied(self, case: Case) -> bool:
        return len(read_all(self.lyon, case.lane, 1)[0]) == len(BEFORE)

    def redirect(self) -> None:
        """paris is lost; the address leads to lyon, and every X writes on there, then every Y."""
        self.site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(self.site.notes("open")))
        self.site.move("lyon")
        with ThreadPoolExecutor(len(self.cases)) as pool:
            list(pool.map(self._continue, self.cases))

    def _continue(self, case: Case) -> None:
        family, found = self.families[case.client], self.outcomes[case.topic]
        for number in AFTER:
            result = found.after[f"x{number}"] = family.send(f"{case.topic}-x{case.x_begins - 1}", f"x{number}")
            if isinstance(result, str) and len(found.after) > 1:
                break
        if case.y is not None and not case.lane:
            found.other = self.families[case.other].send(f"{case.topic}-y{case.y_begins - 1}", "y13")
        found.log = [(value or b"").decode() for _, value, _, _ in read_all(self.lyon, case.topic, 1)[0]]

    def exists(self, topic: str) -> bool:
        """Does lyon have a topic whose leader knows a producer?"""
        try:
            return self.known(self.lyon, topic) is not None
        except (BrokerError, KeyError):
            return False

    def known(self, servers: str, topic: str) -> tuple[int, int] | None:
        """The newest producer that the leader knows, and its epoch."""
        found = blocking(_ask(servers, TopicPartition(topic, 0)))
        newest = max(found, key=lambda each: each.state.last_timestamp, default=None)
        return None if newest is None else (newest.state.producer_id, newest.state.epoch)


def takes_large(servers: str, topic: str) -> bool:
    """Does the leader take a large record of a producer that has no ID?"""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    answers: list[bool] = []
    producer.produce(topic, os.urandom(1000), partition=0, on_delivery=lambda error, _: answers.append(error is None))
    producer.flush(20)
    return answers == [True]


async def _ask(servers: str, partition: TopicPartition) -> list[Known]:
    async with wire_client(ClusterSettings("CLUSTER", (servers,)), client_id="test") as client:
        return (await ask_leaders(client, await client.metadata([partition.topic]), [partition]))[0]


IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_LANES: Final = 9  # of the topics of `lane_cases` each is in another one


def lane_cases(clients: Sequence[str]) -> list[Case]:
    """A lane that copies under X's own name, and one that does under another name."""
    found = []
    for client in clients:
        found.append(replace(lane := Case("lane", client, lane="?"), lane=lane.topic))
        found.append(replace(lane := Case("prefixed", client, lane="?"), lane=f"here.{lane.topic}"))
    return found


@contextmanager
def lanes(stage: Stage) -> Iterator[None]:
    """Workers that copy the topics of the stage's lane cases, which begin: X of each gets the ID of its lane."""
    cases = [case for case in stage.cases if case.lane]
    paris, lyon = stage.site.settings("paris", "lyon")
    for case in cases:
        create_topic(stage.paris, case.topic, 1)
        if case.lane != case.topic:
            create_topic(stage.lyon, case.topic, 1)
    ahead = next_id(paris) + 50
    while next_id(lyon) < ahead:
        pass
    workers = []
    for name, here, there in (
        ("lane", "paris", "lyon"),
        ("prefixed", "here", "there"),
    ):  # two flows, which share nothing
        lines = {
            "clusters": f"{here}, {there}",
            f"{here}.bootstrap.servers": stage.paris,
            f"{there}.bootstrap.servers": stage.lyon,
            f"{here}->{there}.enabled": "true",
            "topics": ", ".join(case.topic for case in cases if case.name == name),
            "drlib.lanes": str(_LANES),
            **{
                f"{each}replication.factor": "1"
                for each in ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
            },
            **({"replication.policy.class": IDENTITY} if name == "lane" else {}),
        }
        file = stage.site.root / f"{name}.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        command = [sys.executable, "-m", "drlib.cli", "mirror", str(file), "--status", str(file.with_suffix(".json"))]
        workers.append(Process(command, file.with_suffix(".log")))
        for case in cases:
            if case.name == name:
                wait_for("its lane has written", lambda case=case: stage.exists(case.lane), 60)

    try:
        stage.begin_at_lanes()
        yield
    finally:
        for worker in workers:
            worker.stop()


APP: Final = "redirected-sums"
INPUT, OUTPUT = "numbers", "totals"
_INTERNAL: Final = (f"{APP}-total-changelog", f"{APP}-by-key-repartition")


class Streams:
    """A Kafka Streams application with exactly_once_v2 at the address, and another producer of its output topic at lyon."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.outcome = Outcome()
        self._other = Librdkafka()

    def begin(self) -> None:
        stage, found = self.stage, self.outcome
        for topic in (INPUT, OUTPUT):
            create_topic(stage.paris, topic, 1)
        for topic in (INPUT, OUTPUT, *_INTERNAL):  # what a mirror would have there
            create_topic(stage.lyon, topic, 1)
        same_next_id(stage.site.settings())
        command = sums_command(stage.site.address, APP, stage.site.root / "sums", INPUT, OUTPUT)
        stage.site.processes["sums"] = Process(command, stage.site.root / "sums.log")
        wait_for("its topics are there", lambda: all(has_topic(stage.paris, topic) for topic in _INTERNAL), 90)
        numbers(stage.paris, BEFORE)
        wait_for("its sum is there", lambda: str(sum(BEFORE)) in self.sums(stage.paris), 60)
        found.x_id = stage.known(stage.paris, OUTPUT) or (-1, -1)
        self._other.open("y", stage.lyon, OUTPUT)
        for number in OTHERS:
            assert self._other.send("y", f"y{number}") == number
        found.y_id = stage.known(stage.lyon, OUTPUT)
        assert found.y_id is not None
        assert found.y_id[0] == found.x_id[0]

    def finish(self) -> None:
        """Behind the move: it reads and sums what is at lyon, where no position of its group is."""
        numbers(self.stage.lyon, AFTER)
        wait_for("its sum is there", lambda: str(sum(AFTER)) in self.sums(self.stage.lyon), 90)
        self.outcome.other = self._other.send("y", "y13")
        self.outcome.log = [(value or b"").decode() for _, value, _, _ in read_all(self.stage.lyon, OUTPUT, 1)[0]]

    def sums(self, servers: str) -> list[str]:
        """What it wrote, ascending: of equal keys it may leave sums out."""
        values = [(value or b"").decode() for _, value, _, _ in read_all(servers, OUTPUT, 1)[0]]
        return [value for value in values if value.isdigit()]

    def ids_at_lyon(self) -> set[tuple[int, int]]:
        """The producers of its repartition topic, which no other writes to."""
        known = blocking(_ask(self.stage.lyon, TopicPartition(_INTERNAL[1], 0)))
        return {(each.state.producer_id, each.state.epoch) for each in known}


def numbers(servers: str, of: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in of:
        producer.produce(INPUT, key="n/k", value=str(number), partition=0)
    assert producer.flush(30) == 0


def has_topic(servers: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=10).topics
