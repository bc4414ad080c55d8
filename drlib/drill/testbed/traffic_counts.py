"""How much a lab's applications and its mirror have done by now: what a sampler asks for, one class for each kind of drill.

Rules: only files are read, of applications and of workers; a process that was started again is not counted from 0 again.
Acknowledged is what a producer was told; processed is what a group committed, a record that it read again twice.
Mirrored is how many records stand on every cluster that a flow takes them to: with two targets the one further behind
counts, and a target that joins begins with nothing.
Not for: how often is asked and where answers go (`sampler`), and no proof: histories and logs are (`rules.checker`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed
from drlib.errors import UsageError
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


class Counting(Protocol):
    def __call__(self) -> Counts:
        """The totals now. May raise `DrlibError` and OSError, and be asked again."""
        ...


class Counted(Protocol):
    """What has applications and a mirror to be counted."""

    def counts(self) -> Counting: ...


class FlightCounts:
    """The flights' applications and the mirror of one flow."""

    def __init__(self, testbed: FailoverTestbed) -> None:
        self._testbed = testbed
        self._mirrored = 0

    def __call__(self) -> Counts:
        rows = partition_statuses(self._testbed.mirror())
        mirrored = sum(row.mirrored for partition, row in rows.items() if partition.topic == "flights")
        self._mirrored = max(self._mirrored, mirrored)
        done = self._testbed.applications.done
        return Counts(done("flights"), self._mirrored, {group: done(group) for group in GROUPS})


class ApplicationCounts:
    """Applications of `topic` by their histories, and whatever flows the workers `TOPIC-mirror...` have among them.

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
        for one in (*self._producers, *(one for those in self._readers.values() for one in those)):
            one.read_on()
        consumed = {
            group: sum(one.consumed for one in those)
            for group, those in self._readers.items()
            if any(one.begun for one in those)
        }
        return Counts(sum(one.acked for one in self._producers), self._everywhere(), consumed)

    def _everywhere(self) -> int:
        """Records that every flow of their cluster has brought over."""
        for path in self._root.glob(f"{self._topic}-mirror*.status.json"):
            try:
                flows = mirror_status.read(path).flows
            except UsageError:
                continue  # it is being started again
            for flow in flows:
                for one in flow.partitions:
                    if one.topic == self._topic:
                        at = (flow.flow, one.partition)
                        self._mirrored[at] = max(self._mirrored.get(at, 0), one.mirrored)
        least: dict[tuple[str, int], int] = {}
        for (flow_name, partition), mirrored in self._mirrored.items():
            at = (flow_name.partition("->")[0], partition)
            least[at] = min(least.get(at, mirrored), mirrored)
        return sum(least.values())


class HistoryCounter:
    """Counts the lines of a history that grows: each is read once, and only when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.begun = False
        self.acked = 0
        self.consumed = 0

    def read_on(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return
        self.begun = True
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        found = decode(whole.splitlines(keepends=True))
        self.acked += sum(row.status is ProducedStatus.ACKED for row in found.produced)
        self.consumed += len(found.consumed)
