"""Counts of produced, mirrored and consumed records of a lab, for the sampler; one class for each kind of drill.

Rules: only files of applications and workers are read; a restarted process does not reset its counts. Produced are
acknowledged records; consumed are committed ones, a record that was read again twice. Mirrored are records on every target of
their cluster: with two targets the one with fewer counts, and a target that joins begins with 0.
Not for: the sampling interval (`sampler`); nor for proofs, which use histories and logs (`lab.checker`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed
from drlib.errors import UsageError
from drlib.files import open_stored
from drlib.lab.checker.history import ProducedStatus, decode
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import partition_statuses
from drlib.mirror.status import worker_status as mirror_status


@dataclass(frozen=True, slots=True)
class Counts:
    """Records so far. `consumed` is by group, without those that have not begun."""

    produced: int
    mirrored: int
    consumed: Mapping[str, int]


Counting = Callable[[], Counts]
"""The totals now. May raise `DrlibError` and `OSError`; the caller asks again later."""


class Counted(Protocol):
    """A testbed whose applications and mirror can be counted."""

    @property
    def applications(self) -> LabApplications: ...

    def counts(self) -> Counting: ...


class FlightCounts:
    """The flights' applications and the mirror of one flow."""

    def __init__(self, testbed: FailoverTestbed) -> None:
        self._testbed = testbed
        self._mirrored = 0

    def __call__(self) -> Counts:
        rows = partition_statuses(self._testbed.mirror(), self._testbed.flow)
        mirrored = sum(row.mirrored for partition, row in rows.items() if partition.topic == "flights")
        self._mirrored = max(self._mirrored, mirrored)
        done = self._testbed.applications.done
        return Counts(done("flights"), self._mirrored, {group: done(group) for group in GROUPS})


class ApplicationCounts:
    """Applications of `topic` by their histories, and the flows of the workers `TOPIC-mirror...`.

    `producers` are names of applications, `readers` those of each group.
    """

    def __init__(
        self, applications: LabApplications, topic: str, producers: Iterable[str], readers: Mapping[str, Iterable[str]]
    ) -> None:
        self._root, self._topic = applications.lab.root, topic
        self._producers = [HistoryCounter(applications.history_path(name)) for name in producers]
        self._readers = {
            group: [HistoryCounter(applications.history_path(name)) for name in names]
            for group, names in readers.items()
        }
        self._mirrored: dict[tuple[str, int], int] = {}

    def __call__(self) -> Counts:
        for application in (
            *self._producers,
            *(application for those in self._readers.values() for application in those),
        ):
            application.read_on()
        consumed = {
            group: sum(application.consumed for application in those)
            for group, those in self._readers.items()
            if any(application.begun for application in those)
        }
        return Counts(sum(application.acked for application in self._producers), self._everywhere(), consumed)

    def _everywhere(self) -> int:
        """Records that every flow of their cluster has mirrored."""
        for path in self._root.glob(f"{self._topic}-mirror*.status.json"):
            try:
                flows = mirror_status.read(path).flows
            except UsageError:
                continue  # it is being started again
            for flow in flows:
                for progress in flow.partitions:
                    if progress.topic == self._topic:
                        at = (flow.flow, progress.partition)
                        self._mirrored[at] = max(self._mirrored.get(at, 0), progress.mirrored)
        least: dict[tuple[str, int], int] = {}
        for (flow_name, partition), mirrored in self._mirrored.items():
            at = (flow_name.partition("->")[0], partition)
            least[at] = min(least.get(at, mirrored), mirrored)
        return sum(least.values())


class HistoryCounter:
    """Counts the lines of a growing history: each is read once, when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.begun = False
        self.acked = 0
        self.consumed = 0

    def read_on(self) -> None:
        try:
            with open_stored(self._path) as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return
        self.begun = True
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        history = decode(whole.splitlines(keepends=True))
        self.acked += sum(row.status is ProducedStatus.ACKED for row in history.produced)
        self.consumed += len(history.consumed)
