"""MirrorMaker 2 as a process of a lab, for tests and benchmarks that compare it with drlib's engine.

Rules: it runs in dedicated mode on an unchanged properties file, with the JVM options of Kafka's `kafka-run-class.sh`, so that
the comparison is fair; its folder is a process registry, so any process can stop it; it ends with the process that started it.
Not for: reading its topics (`drlib.mirror.mm2`).
"""

from __future__ import annotations

import os
from pathlib import Path
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
    """MirrorMaker 2 did not start; `why` holds the end of its log."""


class MirrorMaker2:
    """MirrorMaker 2 on `properties`, with its log and register in `root`; `heap` is the JVM's -Xmx.

    A context manager: started inside, stopped after. `start` again after `stop` or `kill` appends to the same log.
    """

    def __init__(self, root: Path, properties: Path, *, heap: str = "1g") -> None:
        self.root = root.absolute()
        self.properties = properties.absolute()
        self.log = self.root / "mm2.log"
        self._heap = heap
        self._registry = ProcessRegistry(self.root)

    def start(self, *, deadline_s: float = 90.0) -> None:
        """Start it and return when its herders run; connectors and tasks follow within seconds.

        Raises `MissingDependency` (Java, jars), `UsageError` (it runs already), `MirrorMakerFailed`.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.root / "log4j2.properties", jvm_log.configuration("org.apache.kafka.connect.mirror"))
        count_before = self._log_count(_STARTED)
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
        wait_until(lambda: self._log_count(_STARTED) > count_before or not self.alive, deadline_s)
        if self._log_count(_STARTED) == count_before:
            why = f"it did not within {deadline_s:g} s" if self.alive else "its process ended"
            self.kill()
            raise MirrorMakerFailed(
                "MirrorMaker 2 did not start",
                f"{why}; the end of its log is:\n{self.log_tail()}\n",
                f"Look at {self.log} and at {self.properties}",
            )

    def stop(self, *, deadline_s: float = 60.0) -> bool:
        """SIGTERM; SIGKILL at the deadline. True when it stopped in order, which commits its offsets."""
        count_before = self._log_count(_STOPPED)
        self._registry.stop(_NAME, deadline_s=deadline_s)
        return self._log_count(_STOPPED) > count_before

    def kill(self) -> None:
        """SIGKILL, and wait for its end: records copied since its last offset flush will be copied again."""
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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _log_count(self, line: str) -> int:
        return self._text().count(line)

    def _text(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
