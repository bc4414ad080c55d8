"""`drlib failover` where both directions keep topic names: paris is killed, groups continue on lyon under the same names.

One topic is written on paris alone, one on both sides. What groups read is compared with the records that were written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from fix_engine import commit, create_topic, produce, wait_for
from own_processes import said_until_end

from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.status import worker_status as status
from drlib.model import Flow
from drlib.model import TopicPartition as Partition

FLOW = Flow("paris", "lyon")
PASSIVE, SHARED = "orders", "events"  # written on paris; written on both
GROUPS = {"billing": (PASSIVE, 150), "search": (SHARED, 260)}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def properties(lab: Lab, root: Path) -> Path:
    keys = {
        "clusters": "paris, lyon",
        "paris.bootstrap.servers": lab.clusters["paris"].bootstrap,
        "lyon.bootstrap.servers": lab.clusters["lyon"].bootstrap,
        "paris->lyon.enabled": "true",
        "lyon->paris.enabled": "true",
        "topics": f"{PASSIVE}, {SHARED}",
        "replication.policy.class": IDENTITY,
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "drlib.metrics.address": "127.0.0.1:0",
        "emit.checkpoints.interval.seconds": "1",
        "drlib.session.timeout.ms": "6000",
    }
    file = root / "mirror.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return file


def begun(path: Path) -> bool:
    flows = status.read(path).flows if path.exists() else ()
    return len(flows) == 2 and all({p.topic for p in flow.partitions} >= {PASSIVE, SHARED} for flow in flows)


def number(message: Message) -> int:
    return int(dict(message.headers() or ())["n"])


def numbers(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Offset and number of each record, in log order."""
    found: list[tuple[int, int]] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=20)
    consumer.assign([partition])
    while end and consumer.position([partition])[0].offset < end:
        found += [(int(m.offset() or 0), number(m)) for m in consumer.consume(1000, 0.2) if m.error() is None]
    consumer.close()
    return found


def written(lab: Lab, topic: str, records: int) -> None:
    """Wait until both logs hold so many records."""
    sides = [lab.clusters[alias].bootstrap for alias in ("paris", "lyon")]
    wait_for(f"{topic} is the same on both sides", lambda: all(len(numbers(s, topic)) == records for s in sides), 60)


def read_on(bootstrap: str, group: str, topic: str, found: list[int], end: threading.Event) -> None:
    """An application that was moved by hand. `found`: the numbers of the records that it reads."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "error"})
    consumer.subscribe([topic])
    while not end.is_set():
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                found.append(number(message))
                consumer.commit(message, asynchronous=False)
    consumer.close()


def command(file: Path, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "drlib.cli", "failover", str(file), "paris->lyon", "--json", *arguments]
    runs = ["--runs-dir", str(file.parent / "runs")]
    return subprocess.Popen([*argv, *runs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.timeout(300)
def test_groups_continue_under_the_same_topic_names_and_skip_nothing(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("paris", "lyon")) as lab:
        paris, lyon = lab.clusters["paris"], lab.clusters["lyon"]
        file = properties(lab, tmp_path)
        for topic in (PASSIVE, SHARED):
            create_topic(paris.bootstrap, topic, 1)
            create_topic(lyon.bootstrap, topic, 1)
        state = tmp_path / "status.json"
        lab.start_module("mirror", "drlib.cli", "mirror", str(file), "--status", str(state))
        wait_for("both flows copy both topics", lambda: begun(state), 60)  # what is written before is unexplained
        settings = load_mirror_settings(file)
        produce(paris.bootstrap, PASSIVE, 400, partitions=1)
        for each in range(5):  # both at once, so that the logs differ in order
            produce(paris.bootstrap, SHARED, 40, partitions=1, first=100 * each, batch=2000)
            produce(lyon.bootstrap, SHARED, 30, partitions=1, first=1_000_000 + 100 * each, batch=2000)
        written(lab, PASSIVE, 400)
        written(lab, SHARED, 350)
        for group, (topic, at) in GROUPS.items():
            commit(paris.bootstrap, group, topic, at)
        before = {
            g: {n for offset, n in numbers(paris.bootstrap, topic) if offset < at} for g, (topic, at) in GROUPS.items()
        }

        def checkpointed() -> bool:
            known = checkpointed_positions(settings, FLOW)
            return all(
                (found := known.get((group, Partition(topic, 0)))) is not None and found.offset == at
                for group, (topic, at) in GROUPS.items()
            )

        wait_for("checkpoints of the groups", checkpointed, 60)
        produce(lyon.bootstrap, SHARED, 20, partitions=1, first=2_000_000)
        written(lab, SHARED, 370)
        publish_pointer(file, "paris")
        paris.kill()

        out, err = said_until_end(command(file), 120)
        (assessed,) = [json.loads(line) for line in out.splitlines()]
        print(json.dumps(assessed, indent=1), err)
        outlook = {row["group"]: row for row in assessed["groups"]}
        assert outlook["billing"]["continues"] == "exactly"
        assert outlook["search"]["continues"] in ("exactly", "reads again")
        assert (assessed["next"], assessed["gate"]) == ("begin", "open")

        found: dict[str, list[int]] = {group: [] for group in GROUPS}
        end = threading.Event()
        applications = [
            threading.Thread(target=read_on, args=(lyon.bootstrap, group, topic, found[group], end))
            for group, (topic, _) in GROUPS.items()
        ]
        process = command(file, "--yes", "lyon")
        lines = []
        try:
            assert process.stdout is not None
            for text in process.stdout:
                lines.append(json.loads(text))
                if lines[-1]["event"] == "applications":
                    for application in applications:
                        application.start()
            code = process.wait(60)
            print(lines, process.stderr.read() if process.stderr else "")
            assert code == 0, lines
            everything = {topic: {n for _, n in numbers(lyon.bootstrap, topic)} for topic in (PASSIVE, SHARED)}

            def all_read() -> bool:
                return all(before[g] | set(found[g]) == everything[topic] for g, (topic, _) in GROUPS.items())

            wait_for("the groups have read every record", all_read, 30)
        finally:
            end.set()
            process.kill()
            process.communicate()
            for application in applications:
                if application.ident is not None:
                    application.join(30)
        pointer = read_pointer([lyon.settings()]).pointer
        assert pointer is not None
        assert pointer.active == "lyon"
        for group in GROUPS:
            again = sum(n in before[group] for n in found[group])
            print(group, "reads again", again, "of at most", outlook[group]["re_reads"])
            assert len(found[group]) == len(set(found[group]))
            assert again <= outlook[group]["re_reads"]
        assert min(found["billing"]) == max(before["billing"]) + 1
