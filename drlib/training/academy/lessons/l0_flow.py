"""L0, what a flow is: a topic, its mirror topic, and the worker between them; and what the death of a worker costs.

Rules: the fault is a SIGKILL of the worker while it copies; the repair is to start a worker, by any means. Records that
something else wrote to the mirror topic are no repair: the mirror does not know them and copies theirs once more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib.kafka.admin.descriptions import Record
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, NOTED_S, CheckResult, Lesson
from drlib.training.academy.pictures import bars
from drlib.training.academy.points import Teaching

FLOW: Final = "flow"
FIRST: Final = 1000
MORE: Final = 1000  # before the kill, and again after it
ALL: Final = FIRST + 2 * MORE
PARTITIONS: Final = 3
_PROBE_S: Final = 8.0
_NO_WORKER: Final = "The flow has no worker that copies."
_COPIED: Final = "copied"  # by partition, what the mirror topic had when the worker was killed

_Content = tuple[int, bytes | None, bytes | None]  # partition, key, value


class WhatAFlowIs(Lesson):
    key = "L0"
    title = "What a flow is"
    first = (FLOW, "lesson.flow()")
    teaching = Teaching(
        high="Above 100 some would be there twice: the killed worker is fenced, and the new one reads what RIGHT has.",
        low="Below 100 some would be lost: what LEFT acknowledged waits there until a worker reads it.",
        pending="a worker has copied all records",
    )
    hints = (
        "A flow needs a running worker, which reads LEFT and writes RIGHT. Is one running?",
        "lesson.start_mirror() starts a worker. So does, in a shell, the `drlib mirror` command that break_it() shows.",
        "Run lesson.start_mirror(). The new worker fences the dead one, reads what is on RIGHT and continues behind it.",
    )
    claims = (
        "the mirror topic has all records of the topic, copied by the mirror",
        "the mirror topic has each record once, in the order of its partition",
        "a record that is written to LEFT now is on RIGHT within seconds",
    )

    def clusters(self) -> Table:
        """Both clusters, and the addresses by which applications and the mirror reach them."""
        rows = [
            {"cluster": alias, "applications": cluster.bootstrap, "the mirror, over the link": cluster.link_bootstrap}
            for alias, cluster in self.testbed.lab.clusters.items()
        ]
        return Table("Two Kafka clusters", rows, note="Flow LEFT->RIGHT reads LEFT and writes RIGHT.")

    def flow(self) -> Table:
        """Write 1,000 records to the topic on LEFT, start the flow's worker, and compare both sides."""
        self.step(FLOW, self._create_flow)
        note = "The prefix of a mirror topic names its source cluster."
        return self._comparison(f"{self.topic} on LEFT and its mirror topic on RIGHT", note)

    def start_mirror(self) -> Table:
        """Start a worker for LEFT->RIGHT if none runs."""
        self.require(FLOW, "lesson.flow()")
        self.testbed.start_mirror()
        if self.has_done(BREAK):
            self.testbed.wait_mirrored(self.topic)
        note = "It continues behind the last record on RIGHT."
        return Table(f"Worker {self.testbed.mirror().name} runs", [], note=note)

    def question(self) -> str:
        return (
            "LEFT acknowledges more records, and the worker is killed (SIGKILL) while it copies them. Then a new worker is "
            "started. How many records does the mirror topic have in the end, in percent of the topic's records on LEFT?"
        )

    def reference_answer(self) -> str:
        return "100"

    def measured(self) -> float | None:
        source, copied = self.testbed.read("LEFT", self.topic), self._copied()
        if len(source) < ALL or set(map(_content, source)) - set(map(_content, copied)):
            return None
        return round(100 * len(copied) / len(source))

    def show_truth(self) -> Table:
        copied = self._copied()
        note = f"The mirror topic has {len(copied):,} records, {_repeated(copied)} of them twice; {ALL:,} were written."
        return self._comparison("Records in the mirror topic", note)

    def inject_fault(self) -> Mapping[str, int]:
        testbed, mirror = self.testbed, self.testbed.mirror()
        if mirror.runs:
            testbed.write("LEFT", self.topic, range(FIRST + MORE), partitions=PARTITIONS)
            testbed.wait("some of the new records are mirrored", lambda: len(self._copied()) > FIRST)
            self.kill_worker(mirror)
        testbed.write("LEFT", self.topic, range(ALL), partitions=PARTITIONS)
        copied = _by_partition(self._copied())
        return {f"{_COPIED}{number}": len(copied.get(number, [])) for number in range(PARTITIONS)}

    def fault_state(self) -> Table:
        mirror = self.testbed.mirror()
        state = "runs" if mirror.runs else "was killed (SIGKILL)"
        note = f"To start a worker in a shell: {mirror.command}"
        return self._comparison(f"The worker {state}", note)

    def apply_reference(self) -> None:
        self.start_mirror()

    def verify(self, number: int) -> CheckResult:
        if number == 3:
            return self.check_probe(_PROBE_S, _NO_WORKER)
        source, copied = self.testbed.read("LEFT", self.topic), self._copied()
        by_mirror = self.fully_mirrored(self.topic, within_s=NOTED_S if len(copied) >= len(source) else 0.0)
        if number == 1:
            complete = by_mirror and len(source) == len(copied) >= ALL
            observed = f"{len(source):,} on LEFT, {len(copied):,} on RIGHT"
        else:
            complete = by_mirror and len(source) >= ALL and _by_partition(source) == _by_partition(copied)
            missing = len(set(map(_content, source)) - set(map(_content, copied)))
            observed = f"{missing:,} missing, {_repeated(copied):,} present twice"
        why = "Not every record was copied once, and by the mirror." if self.testbed.mirror().runs else _NO_WORKER
        if not by_mirror and len(copied) >= len(source):
            observed = f"{observed}, not all by the mirror"
        return CheckResult(complete, observed, why)

    def figure(self) -> go.Figure:
        source, copied = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        there = [len(copied.get(number, [])) for number in range(PARTITIONS)]
        names = [f"{self.copy}-{number}" for number in range(PARTITIONS)]
        written = [len(source.get(number, [])) for number in range(PARTITIONS)]
        series = copied_by(there, written, [self.numbers.get(f"{_COPIED}{number}", 0) for number in range(PARTITIONS)])
        return bars("Who copied the records of each partition", names, series, "records", stacked=True)

    def _create_flow(self) -> None:
        for topic, partitions in ((self.topic, PARTITIONS), (self.probe_topic, 1)):
            self.testbed.create_topic("LEFT", topic, partitions)
        self.testbed.write("LEFT", self.topic, range(FIRST), partitions=PARTITIONS)
        self.testbed.start_mirror()
        self.testbed.wait_mirrored(self.topic)

    def _copied(self) -> list[Record]:
        return self.testbed.read("RIGHT", self.copy)

    def _comparison(self, title: str, note: str) -> Table:
        source, copied = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        rows = [
            {
                "partition": number,
                f"{self.topic} on LEFT": len(source.get(number, [])),
                f"{self.copy} on RIGHT": len(copied.get(number, [])),
                "same records, same order": source.get(number) == copied.get(number),
            }
            for number in range(PARTITIONS)
        ]
        return Table(title, rows, note=note)


def copied_by(there: Sequence[int], written: Sequence[int], at_kill: Sequence[int]) -> dict[str, list[int]]:
    """The records of each partition by who copied them. `at_kill`: how many there were when the worker was killed."""
    before = [min(count, -(-(FIRST - number) // PARTITIONS)) for number, count in enumerate(there)]
    old = [max(0, killed - first) for killed, first in zip(at_kill, before, strict=True)]
    return {
        "before the fault": before,
        "by the killed worker": old,
        "by the new worker": [max(0, n - first - by_old) for n, first, by_old in zip(there, before, old, strict=True)],
        "on LEFT only": [max(0, left - right) for left, right in zip(written, there, strict=True)],
    }


def _content(record: Record) -> _Content:
    return record.partition.partition, record.key, record.value


def _repeated(records: list[Record]) -> int:
    """How many records repeat an earlier one."""
    return sum(count - 1 for count in Counter(map(_content, records)).values())


def _by_partition(records: list[Record]) -> dict[int, list[_Content]]:
    contents: dict[int, list[_Content]] = {}
    for record in records:
        contents.setdefault(record.partition.partition, []).append(_content(record))
    return contents
