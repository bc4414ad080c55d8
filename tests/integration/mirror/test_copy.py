"""`drlib copy` between two real clusters: exact, once, resumable, and never to itself or round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fix_engine import create_topic, produce, read_all, wait_for

COPY = [sys.executable, "-m", "drlib.cli", "copy"]


def copy(*arguments: str, code: int = 0) -> str:
    """Run the command to its end; what it said on stderr."""
    done = subprocess.run([*COPY, *arguments], capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Copies that go on until they are stopped."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"copy-{len(running)}.log").open("wb") as log:
            running.append(subprocess.Popen([*COPY, *arguments], stdout=log, stderr=log, env=dict(os.environ)))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait(10)


@pytest.mark.long
def test_copy_until_caught_up_ends_and_resumes(left: str, right: str, fresh_topic: Callable[..., str]) -> None:
    topic, empty = fresh_topic("orders"), fresh_topic("empty")
    create_topic(left, topic, 3)
    create_topic(left, empty, 1)
    produce(left, topic, 500, partitions=3, codec="zstd")
    arguments = ("--from", left, "--to", right, "--topics", f"{topic},{empty}", "--until-caught-up")
    output = copy(*arguments)
    assert f"copying 2 topics, 4 partitions, at most 500 records, from {left} to {right}" in output
    assert "caught up" in output
    assert read_all(right, topic, 3) == read_all(left, topic, 3)

    produce(left, topic, 100, partitions=3, first=500)
    copy(*arguments)
    assert read_all(right, topic, 3) == read_all(left, topic, 3)

    round_trip = copy("--from", right, "--to", left, "--topics", topic, code=2)
    assert "would be copied in a cycle" in round_trip
    assert len(read_all(left, topic, 3)[0]) == 200


def test_copy_takes_the_files_and_options_of_mirror_maker_1(
    left: str, right: str, fresh_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = fresh_topic("orders")
    create_topic(left, topic, 1)
    produce(left, topic, 50, partitions=1)
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"bootstrap.servers={left}\ngroup.id=mirror\nauto.offset.reset=earliest\n")
    producer.write_text(f"bootstrap.servers={right}\nacks=all\n")
    files = ("--consumer.config", str(consumer), "--producer.config", str(producer))
    output = copy(*files, "--whitelist", f"{topic}|none-such", "--until-caught-up")
    assert f"{consumer}:2" in output
    assert read_all(right, topic, 1) == read_all(left, topic, 1)
    both = copy(*files, "--from", left, "--include", topic, code=2)
    assert "--consumer.config does not go with --from" in both


def test_copy_forbidden_topics_are_refused_before_writing(
    left: str, right: str, fresh_topic: Callable[..., str]
) -> None:
    topic = fresh_topic("orders")
    create_topic(left, topic, 1)
    create_topic(right, topic, 1)
    produce(left, topic, 10, partitions=1)
    produce(right, topic, 3, partitions=1, first=1000)
    before = read_all(right, topic, 1)
    assert "are one cluster" in copy(
        "--from", left, "--to", f"localhost:{left.rpartition(':')[2]}", "--topics", topic, code=2
    )
    assert "no topic of" in copy("--from", left, "--to", right, "--topics", "no-such-.*", code=2)
    assert "hold records already" in copy("--from", left, "--to", right, "--topics", topic, code=2)
    assert "--to nowhere names no cluster" in copy("--from", left, "--to", "nowhere", "--topics", topic, code=2)
    assert read_all(right, topic, 1) == before


def test_copy_with_prefix_runs_until_sigterm_with_one_worker(
    left: str,
    right: str,
    fresh_topic: Callable[..., str],
    tmp_path: Path,
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    topic = fresh_topic("orders")
    create_topic(left, topic, 2)
    produce(left, topic, 200, partitions=2)
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = WEST, EAST\nWEST.bootstrap.servers = {left}\nEAST.bootstrap.servers = {right}\n")
    status = tmp_path / "status.json"
    arguments = ("--from", "WEST", "--to", "EAST", "--topics", topic, "--prefix", "moved", str(file))
    process = started(*arguments, "--status", str(status))

    def running() -> bool:
        return status.exists() and json.loads(status.read_text())["state"] == "running"

    wait_for("the copy runs", running)
    assert "is already running" in copy(*arguments, code=10)
    produce(left, topic, 50, partitions=2, first=200)

    def copied() -> bool:
        document = json.loads(status.read_text())["flows"][0]["partitions"]
        return sum(partition["mirrored"] for partition in document) == 250

    wait_for("what came later is copied too", copied)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert read_all(right, f"moved.{topic}", 2) == read_all(left, topic, 2)
