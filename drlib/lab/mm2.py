"""The real MirrorMaker 2 as a process of a lab, for tests and benchmarks that put it beside our engine.

Rules: it runs in its dedicated mode on a properties file as it is, with the JVM options of Kafka's own
`kafka-run-class.sh`, so that a comparison is fair; its folder is a process registry, so what was started there can be
stopped by any process and nothing else ever is; it dies with the process that started it.
Not for: reading what it wrote, nor for users; the product never needs it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from drlib.errors import Unreachable
from drlib.files import write_whole
from drlib.lab import jars
from drlib.lab.brokers import jvm_log
from drlib.lab.processes import ProcessRegistry, wait_until

_NAME: Final = "mirror-maker-2"
_STARTED: Final = "Kafka MirrorMaker started"
_STOPPED: Final = "Kafka MirrorMaker stopped."
# kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS; connect-mirror-maker.sh starts with 256 MiB.
_JVM: Final = (
    "-Xms256m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class MirrorMakerFailed(Unreachable):
    """The real MirrorMaker 2 did not come up; `why` holds the end of its log."""


class MirrorMaker2:
    """MirrorMaker 2 on `properties`, with `root` for its log and record; `heap` is the JVM's -Xmx.

    A context manager: started inside, stopped after. `start` again after `stop` or `kill` appends to the same log.
    """

    def __init__(self, root: Path, properties: Path, *, heap: str = "1g") -> None:
        self.root = root.absolute()
        self.properties = properties.absolute()
        self.log = self.root / "mm2.log"
        self._heap = heap
        self._registry = ProcessRegistry(self.root)

    def start(self, *, deadline_s: float = 90.0) -> None:
        """Start it and return when its herders run; its connectors and tasks come up within seconds after that.

        Raises `MissingDependency` (Java, jars), `UsageError` (it runs already), `MirrorMakerFailed`.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.root / "log4j2.properties", jvm_log.configuration("org.apache.kafka.connect.mirror"))
        told_before = self._said(_STARTED)
        argv = [
            str(jars.java().path),
            f"-Xmx{self._heap}",
            *_JVM,
            f"-Dlog4j2.configurationFile={self.root / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars.classpath("mm2"))),
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(self.properties),
        ]
        self._registry.start(_NAME, argv, log=self.log, cwd=self.root)
        wait_until(lambda: self._said(_STARTED) > told_before or not self.alive, deadline_s)
        if self._said(_STARTED) == told_before:
            why = f"it did not within {deadline_s:g} s" if self.alive else "its process ended"
            self.kill()
            raise MirrorMakerFailed(
                "MirrorMaker 2 did not start",
                f"{why}; the end of its log is:\n{self.log_tail()}\n",
                f"Look at {self.log} and at {self.properties}",
            )

    def stop(self, *, deadline_s: float = 60.0) -> bool:
        """SIGTERM; SIGKILL at the deadline. True when it stopped in order, which commits its offsets."""
        told_before = self._said(_STOPPED)
        self._registry.stop(_NAME, deadline_s=deadline_s)
        return self._said(_STOPPED) > told_before

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone: what it copied since its last offset flush will be copied again."""
        self._registry.kill(_NAME)

    @property
    def alive(self) -> bool:
        return self._registry.alive(_NAME)

    @property
    def pid(self) -> int | None:
        """Its process ID; None when it does not run."""
        return next((s.pid for s in self._registry.status() if s.name == _NAME and s.alive), None)

    def log_tail(self, lines: int = jvm_log.TAIL_LINES) -> str:
        """The last lines of its log, "" before it wrote any."""
        return jvm_log.tail(self.log, lines)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _said(self, line: str) -> int:
        return self._text().count(line)

    def _text(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
