"""`drlib mirror --spark` with options that it refuses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository_root import ROOT


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that no process listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def mirror(file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drlib.cli", "mirror", str(file), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--spark", "somewhere"), 2, "is no Spark master"),
        (("--spark", "local[1]", "--status", "s.json"), 2, "--spark and --status do not go together"),
        (("--spark", "local[1]", "--workers", "0"), 2, "at least one worker"),
        (("--spark", "local[1]", "--memory", "1MiB"), 2, "is too little"),
        (("--spark", "local[1]", "--spark-conf", "cores"), 2, "is no setting of Spark"),
        (("--workers", "2"), 2, "are for --spark"),
        (("--spark", "spark://127.0.0.1:{closed}"), 11, "no Spark master answers"),
    ],
)
def test_mirror_on_spark_wrong_options_end_with_one_line(
    file: Path, closed: int, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = mirror(file, *(word.format(closed=closed) for word in arguments))
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("drlib: ") if code == 2 else " ERROR " in line
    assert words in line


def test_mirror_on_spark_without_java_exits_2(file: Path) -> None:
    done = mirror(file, "--spark", "local[1]", "--workers", "2", PATH="/nowhere", JAVA_HOME="/nowhere")
    assert done.returncode == 2, done.stderr
    assert "Spark needs Java" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
