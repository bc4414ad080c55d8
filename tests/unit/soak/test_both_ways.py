"""A soak that a signal ends leaves none of its workers, and takes its clusters down: in both directions, and in one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from own_processes import said_until_end
from repository_root import ROOT

SOAK = """
import signal, subprocess, sys, time
from pathlib import Path

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what runs in its background
import soak.__main__ as one_way
import soak.both_ways as both_ways

place = Path(sys.argv.pop(1))

class Clusters:
    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        (place / "down").touch()

class Started:
    def __init__(self, *_):
        self.engine, self.traffic = self, {}

    def run(self, *_):
        self.worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
        print(self.worker.pid, flush=True)
        time.sleep(600)

    def close(self):
        print("closing", flush=True)
        sys.stdin.readline()  # the second signal comes meanwhile
        self.worker.kill()
        self.worker.wait()

one_way.Lab = both_ways.Lab = Clusters
both_ways.Schedule = one_way.start_testbed = Started
one_way.run_step = Started.run
sys.exit(%s.main())
"""


@pytest.mark.parametrize(("module", "number"), [("both_ways", signal.SIGTERM), ("one_way", signal.SIGINT)])
def test_soak_that_a_signal_ends_has_ended_its_workers_and_clusters(
    module: str, number: signal.Signals, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", SOAK.replace("%s", module), str(tmp_path), "--seed", "7"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as soak:
        assert soak.stdout is not None
        lines = iter(soak.stdout.readline, "")
        worker = psutil.Process(int(next(line for line in lines if line.strip().isdigit())))
        soak.send_signal(number)
        assert "closing" in next(lines)
        soak.send_signal(number)
        said_until_end(soak, 60)
    assert soak.returncode == 128 + number
    assert not worker.is_running()
    assert (tmp_path / "down").exists()
