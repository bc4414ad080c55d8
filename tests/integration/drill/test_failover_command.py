"""`drlib failover` on clusters called paris and lyon: paris is killed, the command is given, a group is moved by hand, done."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import commit, create_topic, produce, wait_for
from own_processes import said_until_end

from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.states import DrillState
from drlib.drill.session.unfinished_runs import read_state
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
GROUP, TOPIC, RECORDS, READ = "billing", "orders", 400, 150


@dataclass(frozen=True)
class Night:
    lab: Lab
    file: Path

    def command(self, *arguments: str, json_lines: bool = True) -> subprocess.Popen[str]:
        form = ["--json"] if json_lines else []
        argv = [sys.executable, "-m", "drlib.cli", "failover", str(self.file), *form, *arguments]
        runs = ["--runs-dir", str(self.file.parent / "runs")]
        return subprocess.Popen([*argv, *runs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, *arguments: str, code: int) -> tuple[list[dict[str, object]], str]:
        out, err = said_until_end(process := self.command(*arguments), 120)
        assert process.returncode == code, out[-3000:] + err[-3000:]
        assert "Traceback" not in out + err
        return [json.loads(line) for line in out.splitlines()], err

    @property
    def active(self) -> str:
        pointer = read_pointer([self.lab.clusters["lyon"].settings()]).pointer
        assert pointer is not None
        return pointer.active


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """A mirrored topic with a group that has read some of it, and the pointer at paris. The file lies outside of the lab."""
    root = tmp_path_factory.mktemp("night")
    with Lab(root / "lab", ("paris", "lyon")) as lab:
        paris, lyon = lab.clusters["paris"], lab.clusters["lyon"]
        keys = {
            "clusters": "paris, lyon",
            "paris.bootstrap.servers": paris.bootstrap,
            "lyon.bootstrap.servers": lyon.bootstrap,
            "paris->lyon.enabled": "true",
            "paris->lyon.topics": TOPIC,
            "lyon->paris.enabled": "false",
            "lyon->paris.emit.heartbeats.enabled": "false",
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "drlib.metrics.address": "127.0.0.1:0",
            "emit.checkpoints.interval.seconds": "1",
        }
        file = root / "mirror.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        create_topic(paris.bootstrap, TOPIC, 1)
        produce(paris.bootstrap, TOPIC, RECORDS, partitions=1)
        commit(paris.bootstrap, GROUP, TOPIC, READ)
        lab.start_module("mirror", "drlib.cli", "mirror", str(file))

        def mirrored() -> bool:
            with Cluster(lyon.settings()) as cluster:
                if len(cluster.topics([f"paris.{TOPIC}", "paris.checkpoints.internal"])) < 2:
                    return False
            return bool(checkpointed_positions(load_mirror_settings(file), FLOW))

        wait_for("the mirror and its checkpoints are there", mirrored, 60)
        publish_pointer(file, "paris")
        yield Night(lab, file)


def read_on(bootstrap: str, found: list[int], end: threading.Event) -> None:
    """The application that was moved by hand: it reads the mirror topic, and commits. `found`: the numbers of records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "error"})
    consumer.subscribe([f"paris.{TOPIC}", TOPIC])
    while not end.is_set():
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                found.append(int(dict(message.headers() or ())["n"]))
                consumer.commit(message, asynchronous=False)
    consumer.close()


def rows(document: Mapping[str, object]) -> list[dict[str, object]]:
    """Its groups."""
    groups = document["groups"]
    assert isinstance(groups, list)
    return groups


@pytest.mark.timeout(300)
def test_failover_command_moves_applications_and_is_done_once(night: Night) -> None:
    (assessed,), err = night.ended("--yes", "lyon", code=3)  # paris serves
    assert (assessed["event"], assessed["next"], assessed["source_serves"]) == ("assessment", "refuse", True)
    assert "--force-reason" in err
    assert night.active == "paris"

    night.lab.clusters["paris"].kill()
    _, err = night.ended("--yes", "rome", code=2)
    assert "nothing was changed" in err
    (assessed,), err = night.ended(code=9)
    assert "Give --yes lyon" in err
    assert (assessed["next"], assessed["gate"], assessed["source_serves"]) == ("begin", "open", False)
    (group,) = rows(assessed)
    assert (group["group"], group["continues"], group["re_reads"]) == (GROUP, "exactly", 0)
    assert assessed["missing_topics"] == [TOPIC]
    assert assessed["loss"]["records"] == 0  # type: ignore[index]
    assert night.active == "paris"

    process = night.command("--yes", "lyon")
    assert process.stdout is not None
    lines: list[dict[str, object]] = []
    found: list[int] = []
    end = threading.Event()
    application = threading.Thread(target=read_on, args=(night.lab.clusters["lyon"].bootstrap, found, end))
    try:
        for text in process.stdout:
            lines.append(json.loads(text))
            if lines[-1]["event"] == "applications":
                assert night.active == "lyon"
                application.start()
        assert process.wait(60) == 0, f"{lines[-1]}\n{process.stderr.read()[-3000:] if process.stderr else ''}"
    finally:
        process.kill()
        process.communicate()
        end.set()
        if application.ident is not None:
            application.join(30)
    told = next(line for line in lines if line["event"] == "applications")
    (change,) = rows(told)
    assert change["group"] == GROUP
    assert change["subscribe"] == [f"paris.{TOPIC}", TOPIC]
    assert change["bootstrap"] == night.lab.clusters["lyon"].bootstrap
    assert any(line["event"] == "application" and line.get("seen") == "served" for line in lines)
    assert lines[-1]["event"] == "result"
    assert (lines[-1]["exit_code"], lines[-1]["error"]) == (0, "")
    assert min(found) == READ
    lyon = night.lab.clusters["lyon"].settings()
    assert read_state(lyon, FLOW).state is DrillState.FAILED_OVER
    with Cluster(lyon) as cluster:
        assert TOPIC in cluster.topics([TOPIC])

    again, _ = night.ended("--yes", "lyon", code=0)
    assert again[0]["next"] == "nothing"
    assert again[-1]["event"] == "result"
    assert str(lines[-1]["run"]).endswith(str(again[-1]["run"]))
