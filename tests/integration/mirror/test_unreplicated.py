"""The tail of a cluster that comes back, on two real clusters: listed, recovered or quarantined once, killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, produce, read_all, wait_for, wait_for_markers
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from own_processes import said_until_end
from tiny_notebook import write_notebook

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.plan.plan import Call
from drlib.drill.plan.progress import Reach
from drlib.drill.run.registry import make_action
from drlib.drill.step import step_output as details
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.unreplicated import settle
from drlib.mirror.offsets.unreplicated.find import HistoryDiverged, find_unreplicated
from drlib.mirror.offsets.unreplicated.rules import EXAMPLES, Settle
from drlib.mirror.offsets.unreplicated.settle import count_sent_again, read_ledger, settle_unreplicated
from drlib.model import Flow, TopicPartition
from drlib.runs import journal
from drlib.runs.abort import Abort

PARTITIONS = 3
MIRRORED, TAIL = 600, 5000

KILLED = """
import os, signal, sys
from drlib.config.settings import load_mirror_settings
from drlib.mirror.offsets.unreplicated.settle import settle_unreplicated
from drlib.mirror.offsets.unreplicated.find import find_unreplicated
from drlib.model import Flow
from drlib.mirror.offsets.unreplicated.rules import Settle

settings, flow, calls = load_mirror_settings(sys.argv[1]), Flow(*sys.argv[2:4]), []
def die_in_the_second_transaction():
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
settle_unreplicated(settings, find_unreplicated(settings, flow), Settle(sys.argv[4]), "run",
check=die_in_the_second_transaction)
"""


@dataclass
class Returned:
    """LEFT is back: `topic` has a tail that its mirror never had, and RIGHT was written meanwhile."""

    engine: Engine
    topic: str
    settings: MirrorSettings
    flow: Flow

    @property
    def quarantine(self) -> str:
        return f"drlib.tail.{self.flow.source}.{self.topic}"

    def tail_on_left(self) -> list[bytes]:
        """What a committed reader finds on LEFT and not in the mirror."""
        here = values(self.engine.left, self.topic)
        return list((Counter(here) - Counter(values(self.engine.right, f"{self.flow.source}.{self.topic}"))).elements())


def values(bootstrap: str, topic: str) -> list[bytes]:
    return [r[1] or b"" for records in read_all(bootstrap, topic, PARTITIONS).values() for r in records]


def transaction(bootstrap: str, topic: str, name: str, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}.{name}", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(30):
        producer.produce(topic, key=b"tx", value=f"{name}-{number}".encode(), partition=number % PARTITIONS)
    producer.flush(30)
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    wait_for_markers(bootstrap, topic, PARTITIONS)


@pytest.fixture
def returned(engine: Engine) -> Returned:
    topic = engine.topics
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, topic, PARTITIONS)
    produce(engine.left, topic, MIRRORED, partitions=PARTITIONS)
    transaction(engine.left, topic, "before", True)
    engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(engine.processes[0]) == 0
    produce(engine.left, topic, TAIL, partitions=PARTITIONS, first=MIRRORED, keys=50)
    transaction(engine.left, topic, "aborted", False)
    transaction(engine.left, topic, "committed", True)
    # RIGHT has newer records of 7 keys that the tail has too, and one that its producer sent to both
    produce(engine.right, topic, 7, partitions=PARTITIONS, first=10_000, keys=10_000)
    again = Producer({"bootstrap.servers": engine.right, "log_level": 0})
    for number in range(7):
        again.produce(topic, key=f"k{number}".encode(), value=b"newer", partition=number % PARTITIONS)
    number = MIRRORED + 20
    again.produce(
        topic,
        key=f"k{number % 50}".encode(),
        value=f"{number}".encode() + b"x" * (number % 300),
        headers=[("n", str(number).encode())],
        partition=0,
    )
    assert again.flush(30) == 0
    return Returned(engine, topic, load_mirror_settings(engine.properties), Flow(engine.source, engine.target))


def test_unreplicated_records_are_found_and_recovered_once_after_kills(returned: Returned) -> None:
    engine, topic = returned.engine, returned.topic
    group = f"{topic}.readers"
    at_500 = {TopicPartition(topic, 0): CommittedOffset(500)}

    def placed() -> bool:
        try:
            with Cluster(ClusterSettings("LEFT", (engine.left,))) as left:
                left.alter_group_offsets(group, at_500)
        except DrlibError:
            return False
        return True

    wait_for("the group has its position", placed)
    expected = returned.tail_on_left()
    assert len(expected) == TAIL + 30
    tail = find_unreplicated(returned.settings, returned.flow)
    assert (tail.records, tail.growing, tail.doubtful, tail.topics) == (TAIL + 30, False, 0, (topic,))
    assert (len(tail.examples), tail.rest) == (EXAMPLES, TAIL + 30 - EXAMPLES)
    assert {p.partition.partition: p.records for p in tail.partitions} == {
        n: sum(number % PARTITIONS == n for number in range(MIRRORED, MIRRORED + TAIL)) + 10 for n in range(PARTITIONS)
    }
    mirrored = next(p.mirrored for p in tail.partitions if p.partition.partition == 0)
    assert tail.read_there == {group: 500 - mirrored}
    # the other side: what RIGHT wrote on its own, though nothing ever flowed back
    assert find_unreplicated(returned.settings, returned.flow.reverse).records == 15

    before = values(engine.right, topic)
    arguments = [str(engine.properties), engine.source, engine.target, Settle.RECOVER]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], env={**os.environ}, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    done = settle_unreplicated(returned.settings, tail, Settle.RECOVER, "run")
    assert (done.recovered, done.sent_again, done.set_aside, done.quarantined) == (TAIL + 29, 1, 0, 0)
    assert done.both == 8  # seven that were written since, and that of the record sent again
    assert done.late > 0
    recovered = Counter(values(engine.right, topic)) - Counter(before)
    assert recovered + Counter(values(engine.right, returned.quarantine)) == Counter(expected)
    assert sum(recovered.values()) == TAIL + 29
    assert (
        settle_unreplicated(returned.settings, tail, Settle.RECOVER, "again").recovered == TAIL + 29
    )  # and nothing is done
    assert len(values(engine.right, topic)) == len(before) + TAIL + 29

    with closing(KafkaConsumer(bootstrap_servers=[engine.right], consumer_timeout_ms=5000)) as plain:
        logs = [KafkaTopicPartition(topic, n) for n in range(PARTITIONS)]
        plain.assign(logs)
        plain.seek_to_beginning(*logs)
        every = len(values(engine.right, topic))
        assert sum(1 for _ in zip(plain, range(every), strict=False)) == every  # by clients without more packages

    # in their partition and their order, byte for byte, and with where they came from
    for partition, records in read_all(engine.right, topic, PARTITIONS).items():
        came = [r for r in records if any(name == "drlib.tail.cluster" for name, _ in r[2])]
        offsets = [int(dict(r[2])["drlib.tail.offset"]) for r in came]
        assert offsets == sorted(offsets)
        assert all(dict(r[2])["drlib.tail.partition"] == b"%d" % partition for r in came)
        source = read_all(engine.left, topic, PARTITIONS)[partition]
        assert {(r[0], r[1], r[2][:-4], r[3]) for r in came} <= set(source)
    with Cluster(ClusterSettings("RIGHT", (engine.right,))) as right:
        found = read_ledger(right)
    assert found.last_run(returned.flow) == "again"
    for part in tail.partitions:
        topic_id = tail.topic_ids[topic]
        assert found.next(tail.source_id, topic_id, part.partition.partition) == part.end


def test_unreplicated_steps_report_and_quarantine_byte_for_byte(returned: Returned, tmp_path: Path) -> None:
    engine, topic = returned.engine, returned.topic
    clusters = returned.settings.clusters
    place = DrillContext(clusters=clusters, flow=returned.flow, run_dir=tmp_path, properties=engine.properties)
    abort = Abort(tmp_path)
    reported = make_action(Call("tail.list"), place, "listed").act((), abort)
    assert (reported["tail_records"], reported["more_than_examples"]) == (TAIL + 30, TAIL + 30 - EXAMPLES)
    assert reported[f"only_on_{engine.target}_records"] == 15
    assert sum(int(str(row["records"])) for row in details.read_rows(tmp_path, "listed")) == TAIL + 30
    assert len(details.read_rows(tmp_path, "listed.examples")) == EXAMPLES

    step = make_action(Call("tail.quarantine"), place, "away")
    changes = step.changes(step.observe())
    assert [(c.before, c.after) for c in changes] == [(None, f"{tmp_path.name}/away")]
    assert step.probe(changes) is Reach.UNTOUCHED
    done = step.act(changes, abort)
    assert (done["quarantined"], done["recovered"], done["unaccounted"]) == (TAIL + 30, 0, 0)
    assert step.probe(changes) is Reach.PARTLY
    assert step.act(changes, abort) == done  # nothing is done again
    with pytest.raises(Deviated):
        step.undo(changes)
    assert Counter(values(engine.right, returned.quarantine)) == Counter(returned.tail_on_left())
    assert len(values(engine.right, topic)) == 15

    engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    with pytest.raises(UsageError, match=f"{returned.flow} is being mirrored"):
        find_unreplicated(returned.settings, returned.flow)
    assert engine.stop(engine.processes[-1]) == 0
    assert find_unreplicated(returned.settings, returned.flow).records == 0


def test_unreplicated_equal_records_are_recovered_as_often_as_they_are_missing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when settling is interrupted after the one that is on both clusters."""
    topic, tail_size, again = engine.topics, 5, 2
    for bootstrap, times in ((engine.left, tail_size), (engine.right, again)):
        create_topic(bootstrap, topic, PARTITIONS)
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for _ in range(times):
            producer.produce(topic, key=b"k", value=b"equal", partition=0)
        assert producer.flush(30) == 0
    settings, flow = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    tail = find_unreplicated(settings, flow)
    assert tail.records == tail_size
    assert count_sent_again(settings, tail) == again
    monkeypatch.setattr(settle, "RECORDS", 1)
    transactions: list[int] = []

    def interrupt() -> None:
        transactions.append(1)
        if len(transactions) == again:  # the first of them was settled
            raise InterruptedError

    with pytest.raises(InterruptedError):
        settle_unreplicated(settings, tail, Settle.RECOVER, "run", check=interrupt)
    done = settle_unreplicated(settings, tail, Settle.RECOVER, "run")
    assert (done.recovered, done.sent_again) == (tail_size - again, again)
    assert values(engine.right, topic) == [b"equal"] * tail_size
    assert values(engine.right, f"drlib.tail.{flow.source}.{topic}") == [b"equal"] * again


@pytest.mark.long
def test_another_history_has_no_tail(returned: Returned) -> None:
    """The topic is made again on LEFT under its name: nothing of what is there was mirrored, so all of it is the tail."""
    engine, topic = returned.engine, returned.topic
    with Cluster(ClusterSettings("LEFT", (engine.left,))) as left:
        left.delete_topic(topic)
        wait_for("it is gone", lambda: topic not in left.topics([topic]))
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 40, partitions=PARTITIONS)
    assert find_unreplicated(returned.settings, returned.flow).records == 40
    assert issubclass(HistoryDiverged, DrlibError)


NOTEBOOK = """\
import os
from pathlib import Path
import drlib
(Path(run_dir) / "kernel.pid").write_text(str(os.getpid()))
drill = drlib.open_drill(runbook, run_dir, properties=properties)
drill.plan()
"""
PARAMETERS = """\
run_dir: str = ""  # where evidence goes
runbook: str = ""  # the runbook
properties: str = ""  # the clusters
"""


def quarantine_book(folder: Path, flow: Flow) -> Path:
    """A runbook that tells the tail and quarantines it."""
    write_notebook(
        folder / "tail.ipynb",
        ("open", NOTEBOOK),
        ("listed", 'drill.until("listed")'),
        ("away", 'drill.until("away")'),
        ("finish", "drill.finish()"),
        parameters=PARAMETERS,
    )
    steps = [
        {"name": "listed", "title": "What only the source has", "action": "tail.list", "danger": "none"},
        {"name": "away", "title": "It is set aside", "action": "tail.quarantine", "undoable": False},
    ]
    drill = {"flow": str(flow), "mode": "emergency", "rollback": "never", "steps": steps}
    book = folder / "tail.yaml"
    book.write_text(yaml.safe_dump({"name": "tail", "title": "The tail", "notebook": "tail.ipynb", "drill": drill}))
    return book


@pytest.mark.long
@pytest.mark.timeout(240)
def test_quarantine_killed_half_way_resumes_without_duplicates(returned: Returned, tmp_path: Path) -> None:
    engine, runs = returned.engine, tmp_path / "runs"

    def drlib(*arguments: str | Path) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "drlib.cli", "run", *map(str, arguments), "--runs-dir", str(runs)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    expected = Counter(returned.tail_on_left())
    away = [TopicPartition(returned.quarantine, n) for n in range(PARTITIONS)]
    book = quarantine_book(tmp_path, returned.flow)
    process = drlib(book, engine.properties, "--skip-gate", "its mirror is stopped, as a tail wants it")
    with Cluster(ClusterSettings("RIGHT", (engine.right,))) as right:

        def committed() -> Mapping[TopicPartition, int]:
            return right.log_ends(away, Isolation.READ_COMMITTED)

        def begun() -> bool:
            assert process.poll() is None, process.communicate()
            return returned.quarantine in right.topics([returned.quarantine]) and any(committed().values())

        wait_for("the first records are set aside", begun, 90)
        (folder,) = (path for path in runs.iterdir() if path.is_dir())
        os.kill(int((folder / "kernel.pid").read_text()), signal.SIGKILL)
        process.kill()
        process.communicate(timeout=60)
        half = sum(committed().values())
    assert 0 < half < TAIL + 30, "it was to be killed half-way"

    resumed = drlib("--resume", folder)
    out, err = said_until_end(resumed, 120)
    assert resumed.returncode == 0, out + err
    assert Counter(values(engine.right, returned.quarantine)) == expected
    lines = journal.read(folder / "journal.jsonl")
    assert sum(line.event == "run-resumed" for line in lines) == 1
    (done,) = (line.data for line in lines if line.event == "step-succeeded" and line.data["step"] == "away")
    assert (done["tail_records"], done["quarantined"], done["unaccounted"]) == (TAIL + 30, TAIL + 30, 0)
