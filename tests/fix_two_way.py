"""Workers of two flows between two clusters that keep topic names: fixture `both`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fix_engine import Engine, wait_for

from drlib.errors import UsageError
from drlib.mirror.status import worker_status as status

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
RIGHTS_FIRST = 1_000_000  # records of the right cluster's clients are numbered from here on


@pytest.fixture
def both(engine: Engine) -> Engine:
    """Both directions of a pair, under one name."""
    engine.extra |= {
        f"{engine.target}->{engine.source}.enabled": "true",
        "replication.policy.class": IDENTITY,
        "drlib.lanes": "2",
    }
    return engine


def begun(path: Path, partitions: int, *, flows: int = 2) -> bool:
    """Have all flows claimed all partitions, by a worker's status file? What is written before is unexplained."""
    try:
        state = status.read(path)
    except UsageError:  # none written yet
        return False
    return len(state.flows) == flows and all(len(flow.partitions) == partitions for flow in state.flows)


@contextmanager
def worker(engine: Engine, partitions: int = 1, *, flows: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of all flows, once it has claimed all partitions."""
    process = engine.start()
    path = engine.status_path(len(engine.processes) - 1)
    wait_for("all flows copy", lambda: begun(path, partitions, flows=flows))
    yield process
    assert engine.stop(process) == 0, engine.log()
