"""What a drill plays on: a lab, the mirror between its clusters, and applications that produce and consume.

Rules: everything runs as a process of its own, started through the lab's registry, so that `drlib lab down` and an abort
find all of it; every wait has a deadline and says what it waited for. The applications are moved by the pointer alone.
Not for: deciding or judging; the drill does that.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from drlib.clusters import pointer as pointers
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable
from drlib.lab.lab import Lab
from drlib.lab.traffic import specs
from drlib.lab.traffic.process import AppStatus, read_status
from drlib.lab.traffic.topics import SOURCE_TOPICS, STANDBY_TOPICS, create_topics
from drlib.mirror import status as mirror_status
from drlib.model import Flow

GROUPS = ("arrivals", "delays")
MIRROR = "mirror"
FLOW = Flow("LEFT", "RIGHT")


def _keys(lanes: int) -> dict[str, str]:
    """What the drill sets in the mirror's file. A short session makes a dead worker's lanes free sooner."""
    return {"drlib.lanes": str(lanes), "drlib.session.timeout.ms": "3000"}


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much the applications do. Rates are records per second; `backlog` records go first, as fast as they can."""

    records_per_second: float = 3000.0
    backlog: int = 30_000
    delays_per_second: float = 2000.0


class Stage:
    """The processes of one drill. `histories` are written to `run_dir`/history."""

    def __init__(self, lab: Lab, run_dir: Path, traffic: Traffic, lanes: int) -> None:
        self.lab = lab
        self.run_dir = run_dir
        self.traffic = traffic
        self.histories = run_dir / "history"
        self.pointer_path = lab.root / pointers.POINTER_NAME
        self.properties = lab.write_properties(None, topics="flights.*", **_keys(lanes))
        self._mirrors = sum(r.name.startswith(MIRROR) for r in lab.registry.records())

    @property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.properties)

    # -- mirror --------------------------------------------------------------------------------------------------

    @property
    def mirror_status_path(self) -> Path:
        return self.lab.root / "mirror-status.json"

    def start_mirror(self) -> None:
        """Start a worker and wait until it owns its lanes."""
        self.mirror_status_path.unlink(missing_ok=True)
        self._mirrors += 1
        argv = [
            sys.executable,
            "-m",
            "drlib.cli",
            "mirror",
            str(self.properties),
            "--status",
            str(self.mirror_status_path),
        ]
        self.lab.registry.start(self._mirror, argv, log=self.lab.root / f"{self._mirror}.log")
        self.wait("the mirror runs", lambda: self._told().state == "running" and self._lanes_run(), 60)

    @property
    def _mirror(self) -> str:
        return f"{MIRROR}-{self._mirrors}"

    def _told(self) -> mirror_status.WorkerStatus:
        try:
            return mirror_status.read(self.mirror_status_path)
        except Exception:
            return mirror_status.WorkerStatus(0, 0, "starting", ())

    def _lanes_run(self) -> bool:
        return all(lane.state == "running" for flow in self._told().flows for lane in flow.lanes)

    def mirror(self) -> mirror_status.WorkerStatus:
        """What the worker last said."""
        return self._told()

    def kill_mirror(self) -> None:
        self.lab.registry.kill(self._mirror)

    def drain_mirror(self) -> None:
        """SIGTERM: the worker sends and journals what it has fetched, and exits."""
        self.lab.registry.signal(self._mirror, signal.SIGTERM)
        self.wait("the mirror drained", lambda: not self.lab.registry.alive(self._mirror), 30)

    def alert(self) -> str:
        """The worker's open event about its source, empty when there is none."""
        for event in self._told().events:
            if event.name in {"SourceUnreachable", "GroupTailUnavailable"} and event.resolved_ms is None:
                return f"{event.name}: {event.detail}"
        return ""

    # -- applications --------------------------------------------------------------------------------------------

    def start_applications(self) -> None:
        """Make the topics, point everybody at LEFT, start producers and consumers."""
        left, right = self.lab.clusters[FLOW.source], self.lab.clusters[FLOW.target]
        create_topics(left.bootstrap, SOURCE_TOPICS)
        create_topics(right.bootstrap, STANDBY_TOPICS)
        self.histories.mkdir(mode=0o700, parents=True, exist_ok=True)
        pointers.write_atomic(self.pointer_path, pointers.Pointer(1, FLOW.source, left.bootstrap))
        produce, rate = specs.ProducerMode, self.traffic.records_per_second
        self._produce("flights", produce.FLIGHTS, records_per_second=rate, backlog=self.traffic.backlog)
        self._produce("flights-2013", produce.FLIGHTS_2013, topic="flights-2013")
        self._produce("flights-tx", produce.FLIGHTS_TX, topic="flights-tx")
        self._consume("arrivals", 0.0)
        self._consume("delays", self.traffic.delays_per_second)

    def _produce(self, name: str, mode: specs.ProducerMode, *, topic: str = "flights", **rates: float) -> None:
        spec = specs.ProducerSpec(
            pointer=str(self.pointer_path),
            history=str(self.history(name)),
            mode=mode,
            topic=topic,
            status=str(self._status_path(name)),
            records_per_second=float(rates.get("records_per_second", 2000.0)),
            backlog=int(rates.get("backlog", 0)),
        )
        self._start(name, "producer", spec)

    def _consume(self, group: str, rate: float) -> None:
        spec = specs.ConsumerSpec(
            pointer=str(self.pointer_path),
            history=str(self.history(group)),
            group=group,
            records_per_second=rate,
            after_move_records_per_second=0.0,
            status=str(self._status_path(group)),
        )
        self._start(group, "consumer", spec)

    def _start(self, name: str, module: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> None:
        path = self.lab.root / f"{name}.spec.json"
        specs.write(path, spec)
        argv = [sys.executable, "-m", f"drlib.lab.traffic.{module}", str(path)]
        self.lab.registry.start(name, argv, log=self.lab.root / f"{name}.log")

    def history(self, name: str) -> Path:
        return self.histories / f"{name}.jsonl"

    def _status_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.status.json"

    def application(self, name: str) -> AppStatus | None:
        return read_status(self._status_path(name))

    def done(self, name: str) -> int:
        """Records an application has had acknowledged or has processed."""
        found = self.application(name)
        return found.done if found else 0

    def move_applications(self, cutover: Mapping[str, tuple[int, ...]]) -> None:
        """Point everybody at RIGHT: the remote topics up to `cutover`, then the local ones."""
        current = pointers.read(self.pointer_path)
        bootstrap = self.lab.clusters[FLOW.target].bootstrap
        moved = pointers.Pointer(current.version + 1, FLOW.target, bootstrap, f"{FLOW.source}.", dict(cutover))
        pointers.write_atomic(self.pointer_path, moved)

    def on_target(self, name: str) -> bool:
        found = self.application(name)
        return found is not None and found.cluster == FLOW.target and found.phase == "running"

    def stop(self, *names: str) -> None:
        """SIGTERM, so that histories end whole."""
        for name in names:
            self.lab.registry.stop(name)

    def wait(self, what: str, holds: Callable[[], bool], deadline_s: float) -> None:
        """Wait for `holds`. Raises `Unreachable` naming `what` after `deadline_s` seconds."""
        end = time.monotonic() + deadline_s
        while not holds():
            if time.monotonic() > end:
                raise Unreachable(
                    f"waited for: {what}",
                    f"it was not so within {deadline_s:g} s",
                    f"Look at the logs in {self.lab.root}.",
                )
            time.sleep(0.05)
