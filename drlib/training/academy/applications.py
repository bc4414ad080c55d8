"""Applications of a lesson: unmodified consumers in Java and Python, each a process of the lab with one cluster's address.

Rules: they follow no pointer; a lesson starts them on a cluster and stops them. What one has read is in its history, a file for
each cluster, which is kept when it is stopped. Opening another lesson stops them and deletes the histories.
Not for: applications that follow the pointer (`drlib.lab.apps`), or judging what was read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.errors import MissingDependency
from drlib.lab.checker.history_files import read_history
from drlib.lab.clients.runtimes import Client, command, found
from drlib.training.academy.testbed import HISTORY, WORKER, LessonTestbed

JAVA: Final = "java"
PYTHON: Final = "librdkafka"
_STOP_S: Final = 20.0  # a killed consumer is a member of its group until its session times out
LANGUAGES: Final = {JAVA: "Java", PYTHON: "Python"}


@dataclass(frozen=True, slots=True)
class Application:
    """The consumer `short`, such as billing, written with the clients of `family`. Its group bears the attempt's tag."""

    testbed: LessonTestbed
    short: str
    family: str

    @property
    def group(self) -> str:
        return self.testbed.name(self.short)

    @property
    def runs(self) -> bool:
        return self.testbed.lab.registry.alive(self._process)

    def require(self) -> None:
        """Raises `MissingDependency` where this machine cannot run its family."""
        if missing := next((each.missing for each in found() if each.family == self.family), ""):
            raise MissingDependency(f"{self.short} cannot be started", missing, "Install it, then run this cell again.")

    def start(self, alias: str, *topics: str) -> None:
        """Start it on the cluster unless it runs; it subscribes to `topics`. Raises as `require` does."""
        if self.runs:
            return
        self.require()
        lab = self.testbed.lab
        servers, history = lab.clusters[alias].bootstrap, self._history(alias)
        client = Client(self.family, "consume", self.group, alias, servers, topics, history, 0.0, lab.client_file())
        lab.start_program(self._process, command(client))

    def stop(self) -> None:
        """SIGTERM: it commits what it has read, and leaves its group."""
        self.testbed.lab.registry.stop(self._process, deadline_s=_STOP_S)

    def read(self, alias: str) -> list[str]:
        """What it has read on the cluster, in order."""
        return [row.id for row in read_history(self._history(alias)).consumed]

    def forget(self, alias: str) -> None:
        """Delete the history of what it has read on the cluster."""
        self._history(alias).unlink(missing_ok=True)

    @property
    def _process(self) -> str:
        return f"{WORKER}{self.group}"

    def _history(self, alias: str) -> Path:
        return self.testbed.lab.root / f"{self._process}-{alias.lower()}{HISTORY}"
