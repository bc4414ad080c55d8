"""`drlib pointer` on two clusters that are not LEFT and RIGHT, and followers in Java and Go that see its moves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import drlib, error_line
from confluent_kafka import Producer
from fix_engine import create_topic, produce, wait_for
from repository_root import ROOT
from testbed_producer_ids import same_next_id

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.pointer_copies import read_copies
from drlib.client.pointer_topic import publish, read_pointer
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.lab import Lab

FOLLOWERS = ROOT / "docs" / "followers"
START_S = 90.0  # a compiler and a JVM on a busy machine


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Clusters paris and lyon: the pointer's topic has one name on all clusters, so no other test may use these."""
    with Lab(tmp_path_factory.mktemp("pointer-lab"), ("paris", "lyon")) as lab:
        yield lab


@pytest.fixture
def file(own: Lab, tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    addresses = "".join(f"{alias}.bootstrap.servers = {c.bootstrap}\n" for alias, c in own.clusters.items())
    path.write_text(f"clusters = paris, lyon\n{addresses}paris->lyon.enabled = true\n")
    return path


def clusters(lab: Lab) -> list[ClusterSettings]:
    return [ClusterSettings(alias, (cluster.bootstrap,)) for alias, cluster in lab.clusters.items()]


class Lines:
    """What a process has written to its standard output so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """After the process has ended."""
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line.rstrip("\n"))

    def wait(self, what: str, holds: Callable[[str], bool], deadline_s: float = 30.0) -> None:
        try:
            wait_for(what, lambda: bool(self.seen) and holds(self.seen[-1]), deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it wrote {self.seen}") from None


@contextmanager
def started(command: Sequence[str], cwd: Path = ROOT) -> Iterator[Lines]:
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True)
    lines = Lines(process)
    try:
        yield lines
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        lines.close()


def next_version(lab: Lab) -> int:
    return read_copies(clusters(lab)).next_version


def shown(file: Path, *more: str) -> tuple[int, dict[str, object]]:
    result = drlib("pointer", "show", str(file), "--json", *more)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def moved(file: Path, cluster: str, *more: str) -> None:
    result = drlib("pointer", "move", str(file), cluster, "--yes", cluster, *more)
    assert result.returncode == 0, result.stderr
    assert "not translated" in result.stderr


def test_pointer_is_moved_shown_watched_and_repaired(own: Lab, file: Path) -> None:
    paris, lyon = clusters(own)
    code, empty = shown(file)
    assert (code, empty["pointer"], empty["agree"]) == (3, None, False)
    assert "not confirmed" in error_line_last(drlib("pointer", "move", str(file), "paris"), 9)
    assert "'lyon' was given" in error_line_last(drlib("pointer", "move", str(file), "paris", "--yes", "lyon"), 2)
    assert "has paris, lyon" in error_line(drlib("pointer", "move", str(file), "rome", "--yes", "rome"), 2)
    assert shown(file)[0] == 3, "a move that was refused has written a pointer"
    moved(file, "paris")
    with started([sys.executable, "-m", "drlib.cli", "pointer", "watch", str(file), "--json"]) as watched:
        watched.wait("paris is seen", lambda line: json.loads(line)["pointer"]["active"] == "paris")
        create_topic(lyon.bootstrap_servers[0], "paris.orders", 2)
        produce(lyon.bootstrap_servers[0], "paris.orders", 10, partitions=2)
        moved(file, "lyon")
        watched.wait("lyon is seen", lambda line: json.loads(line)["pointer"]["active"] == "lyon")
        os.kill(watched.process.pid, signal.SIGINT)
        assert watched.process.wait(20) == 0
    code, now = shown(file)
    assert (code, now["agree"], now["conflict"], now["silent"]) == (0, True, "", {})
    pointer = now["pointer"]
    assert isinstance(pointer, dict)
    assert pointer["version"] == 2
    assert pointer["by"] == "drlib pointer move"
    assert (pointer["remote_prefix"], pointer["cutover"]) == ("paris.", {"paris.orders": [5, 5]})
    # one cluster gets a newer pointer than the other: it is reported, and written to the other as it is
    publish([lyon], Pointer(3, "paris", paris.bootstrap_servers[0], hold=True, hold_limit_s=60))
    publish([lyon], Pointer(4, "lyon", lyon.bootstrap_servers[0]), "billing")
    code, now = shown(file)
    states = {(c["application"], c["place"]): c["state"] for c in now["copies"]}  # type: ignore[attr-defined]
    assert (code, now["agree"]) == (3, False)
    assert states["*", "paris"] == "older: version 2, the newest is 3"
    assert states["billing", "paris"] == "missing"
    assert "at most 60 s" in str(now["hold"])
    repaired = drlib("pointer", "publish", str(file))
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    code, again = shown(file)
    assert (code, again["agree"]) == (0, True)
    assert again["pointer"] == now["pointer"], "a repair changed what applications do"
    assert read_pointer([paris], "billing").pointer == Pointer(4, "lyon", lyon.bootstrap_servers[0])
    history = json.loads(drlib("pointer", "show", str(file), "--history", "--json").stdout)
    assert (history["silent"], history["unreadable"]) == ({}, [])
    assert [
        (m["pointer"]["version"], m["application"], m["pointer"]["active"], m["places"]) for m in history["moves"]
    ] == [
        (4, "billing", "lyon", ["paris", "lyon"]),
        (2, "*", "lyon", ["paris", "lyon"]),
        (1, "*", "paris", ["paris", "lyon"]),
    ]
    assert history["moves"][1]["pointer"]["cutover"] == {"paris.orders": [5, 5]}
    assert "1 topics" in drlib("pointer", "show", str(file), "--history").stdout


def error_line_last(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The error below the warning that groups are not translated."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def test_pointer_two_of_one_version_are_settled_by_a_move_only(own: Lab, file: Path) -> None:
    paris, lyon = clusters(own)
    version = next_version(own)
    publish([paris], Pointer(version, "paris", "p:1"))
    publish([lyon], Pointer(version, "lyon", "l:1"))
    code, now = shown(file)
    assert code == 3
    assert f"two pointers with version {version}" in str(now["conflict"])
    assert drlib("pointer", "publish", str(file)).returncode != 0
    moved(file, "lyon")
    code, now = shown(file)
    assert (code, now["agree"], now["conflict"]) == (0, True, "")


def test_pointer_move_to_a_dead_cluster_needs_a_reason(own: Lab, file: Path) -> None:
    file.write_text(file.read_text().replace(f"paris.bootstrap.servers = {own.clusters['paris'].bootstrap}", DEAD))
    publish(clusters(own)[1:], Pointer(next_version(own), "lyon", own.clusters["lyon"].bootstrap), "dead")
    command = ("pointer", "move", str(file), "paris", "--application", "dead", "--yes", "paris")
    assert "does not answer" in error_line(drlib(*command), 11)
    assert shown(file, "--application", "dead")[0] == 3, "a cluster that did not answer may have a newer pointer"
    forced = drlib(*command, "--force", "it starts in a minute")
    assert forced.returncode == 0, forced.stderr
    assert "paris missed it" in forced.stdout
    pointer = read_pointer(clusters(own)[1:], "dead").pointer
    assert pointer is not None
    assert (pointer.active, pointer.by) == ("paris", "drlib pointer move, forced: it starts in a minute")


DEAD = "paris.bootstrap.servers = 127.0.0.1:1"


def test_pointer_move_of_redirected_producers_whose_id_is_taken_needs_a_reason(own: Lab, file: Path) -> None:
    paris, lyon = clusters(own)
    file.write_text(file.read_text() + "paris->lyon.topics = taken\ndrlib.producers.redirected = true\n")
    for cluster in (paris, lyon):
        create_topic(cluster.bootstrap_servers[0], "taken", 1)
    publish([paris, lyon], Pointer(next_version(own), "paris", paris.bootstrap_servers[0]))
    command = ("pointer", "move", str(file), "lyon", "--yes", "lyon")

    def refused() -> bool:  # unless something else got an ID between
        same_next_id([paris, lyon])
        for cluster in (paris, lyon):
            produce(cluster.bootstrap_servers[0], "taken", 3, partitions=1)
        result = drlib(*command)
        if result.returncode == 0:
            publish([paris, lyon], Pointer(next_version(own), "paris", paris.bootstrap_servers[0]))
            return False
        line = error_line_last(result, 3)
        assert "the applications stay at paris: producer ID" in line
        assert "--force REASON" in line
        return True

    wait_for("two producers have one ID", refused, 60)
    assert shown(file)[1]["pointer"]["active"] == "paris"  # type: ignore[index]
    forced = drlib(*command, "--force", "they are stopped")
    assert forced.returncode == 0, forced.stderr
    assert "Producer IDs of paris: producer ID" in forced.stderr
    assert shown(file)[1]["pointer"]["active"] == "lyon"  # type: ignore[index]


@pytest.mark.parametrize("language", ["java", "go"])
def test_follower_of_the_topic_sees_a_move_and_a_hold(own: Lab, file: Path, language: str, tmp_path: Path) -> None:
    publish(clusters(own), Pointer(next_version(own), "paris", own.clusters["paris"].bootstrap), language)
    addresses = [cluster.bootstrap for cluster in own.clusters.values()]
    with started([*program(language, tmp_path), language, *addresses]) as follower:
        use = {alias: f"use {alias} {cluster.bootstrap}" for alias, cluster in own.clusters.items()}
        follower.wait("paris is used", lambda line: line == use["paris"], START_S)
        producer = Producer({"bootstrap.servers": own.clusters["paris"].bootstrap})
        for value in (b"oops", b"[]", b'{"version": "9"}'):  # no pointers: they hold up no other
            producer.produce("drlib.active.internal", value, key=language, partition=0)
        assert producer.flush(20) == 0
        moved(file, "lyon", "--application", language)
        follower.wait("lyon is used", lambda line: line == use["lyon"])
        lyon = own.clusters["lyon"].bootstrap
        publish(clusters(own), Pointer(next_version(own), "lyon", lyon, hold=True, hold_limit_s=4), language)
        follower.wait("the hold is seen, and its end", lambda line: line == use["lyon"] and len(follower.seen) > 2)
        assert follower.seen == [use["paris"], use["lyon"], f"stop at lyon {lyon}", use["lyon"]]


def program(language: str, folder: Path) -> list[str]:
    if language == "java":
        classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
        return [str(jars.java().path), "-Xmx128m", "-cp", classpath, str(FOLLOWERS / "PointerFollower.java")]
    return [built(FOLLOWERS / "go-topic", folder)]


def built(source: Path, folder: Path) -> str:
    """The program of a Go module, built; skips without Go or without the modules it needs."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go on the PATH")
    if subprocess.run([go, "mod", "download"], cwd=source, capture_output=True, check=False).returncode:
        pytest.skip("the Go modules are not there, and no proxy serves them")
    subprocess.run([go, "vet", "./..."], cwd=source, check=True)
    subprocess.run([go, "build", "-o", str(folder / "follower"), "."], cwd=source, check=True)
    return str(folder / "follower")


def test_follower_of_the_file_in_go_sees_a_move_and_ignores_an_older_pointer(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, Pointer(3, "paris", "p:1"))
    with started([built(FOLLOWERS / "go-file", tmp_path), str(path)]) as follower:
        follower.wait("paris is used", lambda line: line == "use paris p:1", START_S)
        path.write_bytes(b"{")
        pointer_file_of(path, 2, "rome")
        pointer_file_of(path, 4, "lyon")
        follower.wait("lyon is used", lambda line: line == "use lyon l:1")
        assert follower.seen == ["use paris p:1", "use lyon l:1"]


def pointer_file_of(path: Path, version: int, alias: str) -> None:
    """Write it whatever the file has."""
    path.unlink()
    pointer_file.write_atomic(path, Pointer(version, alias, f"{alias[0]}:1"))
