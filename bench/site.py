"""Where benchmarks run: a lab of two clusters, the link set as the workload wants it, topics made and removed.

Rules: source and target are reached without the proxy unless the link is what is measured; the brokers' own settings
are the lab's, the same for every engine; mirror topics are removed after each run and their files soon after, so that
later runs find the same disk and page cache. Not for: records (`wire_load`), engines (`engines`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from bench.wire_load import Load
from bench.workloads import GIGABIT, RTT_MS, Link
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until

SOURCE: Final = "LEFT"
TARGET: Final = "RIGHT"
BROKER_SETTINGS: Final = {
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.threads": "1",
}
_KEPT: Final = ("__consumer_offsets", "__transaction_state")
_PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Site:
    """`source` and `target` are what engines connect to; `*_direct` never goes through the link."""

    lab: Lab
    source: str
    target: str
    source_direct: str
    target_direct: str

    @property
    def root(self) -> Path:
        return self.lab.root

    @property
    def pids(self) -> tuple[int, ...]:
        """The lab's own processes: brokers and link proxy, and whatever else runs there now."""
        return tuple(process.pid for process in self.lab.status() if process.alive)


def site(lab: Lab, link: Link) -> Site:
    """Set the link and say where everything is."""
    left, right = lab.clusters[SOURCE], lab.clusters[TARGET]
    lab.proxy.clear()
    if link is not Link.NONE:
        alias = SOURCE if link is Link.SOURCE else TARGET
        lab.proxy.set(alias, delay_ms=RTT_MS / 2, bandwidth=GIGABIT)
    return Site(
        lab,
        left.link_bootstrap if link is Link.SOURCE else left.bootstrap,
        right.link_bootstrap if link is Link.TARGET else right.bootstrap,
        left.bootstrap,
        right.bootstrap,
    )


def create_topics(bootstrap: str, names: list[str], partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Create topics and wait until the cluster lists them all."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for start in range(0, len(names), 100):
        wanted = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in names[start : start + 100]]
        for future in admin.create_topics(wanted, operation_timeout=60).values():
            future.result(_PATIENCE_S)
    if not wait_until(lambda: set(names) <= set(admin.list_topics(timeout=10).topics), _PATIENCE_S):
        raise TimeoutError(f"{len(names)} topics were created and do not show")


def clean(bootstrap: str, *, keep: tuple[str, ...] = ()) -> None:
    """Remove every topic but those of Kafka itself and `keep`, and wait until they are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def rest() -> list[str]:
        return [t for t in admin.list_topics(timeout=10).topics if t not in _KEPT and t not in keep]

    doomed = rest()
    for start in range(0, len(doomed), 100):
        for future in admin.delete_topics(doomed[start : start + 100], operation_timeout=60).values():
            future.result(_PATIENCE_S)
    if not wait_until(lambda: not rest(), _PATIENCE_S):
        raise TimeoutError(f"topics were removed and still show: {rest()[:3]}")


def wire_load(what: str, bootstrap: str, topic: str, partitions: int, **options: int | str) -> Load:
    """Run `bench.wire_load` to its end. Raises `RuntimeError` with what it said when it failed."""
    argv = [sys.executable, "-m", "bench.wire_load", what, "--bootstrap", bootstrap, "--topic", topic]
    argv += ["--partitions", str(partitions)]
    argv += [part for k, v in options.items() for part in (f"--{k.replace('_', '-')}", str(v))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=python_path(), timeout=600)
    if done.returncode:
        raise RuntimeError(f"the raw wire could not {what} {topic}:\n{done.stderr[-3000:]}")
    return Load(**json.loads(done.stdout))


def python_path() -> dict[str, str]:
    """This process's environment, with this very source tree first on the path of Python children."""
    here = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}
